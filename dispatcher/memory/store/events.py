"""Events between day store and archive: handed to Redis, from where the night takes them, and put back from an archive (shared/turns/events.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dispatcher.memory.hooks import feature_tables
from shared.system.faults import crash_point
from shared.turns.events import Event, EventKind
from shared.wire import keys
from shared.wire.key_table import chat_tables

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.store.event_outbox import EventOutbox

#: Events of one round trip.
AT_ONCE = 200


def hand_over(outbox: EventOutbox, client: Redis) -> int:
    """Hand all events that wait to Redis; how many. One is taken out of the store after Redis has it, so a crash in between hands it over again."""
    count = 0
    while some := outbox.waiting(AT_ONCE):
        with client.pipeline(transaction=False) as sent:
            for one in some:
                sent.set(one.event.key, one.event.to_json())
            sent.execute()
        crash_point("events:handed-over")
        outbox.remove(some)
        count += len(some)
    return count


def put_back(outbox: EventOutbox, client: Redis, events: Iterable[Event], hidden: Iterable[str]) -> dict[str, int]:
    """Bring back what archived events tell, as far as this host does not have it; kind → how many. `hidden`: uids of what was
    forgotten since. What is of a feature that is not there stays in the archive."""
    gone, made = frozenset(hidden), Counter[str]()
    left = sorted((one for one in events if one.id not in gone), key=lambda one: (one.kind, one.chat_id))
    for (kind, chat_id), some in groupby(left, key=lambda one: (one.kind, one.chat_id)):
        if kind == EventKind.CHAT:
            made[str(kind)] += sum(_set_chat(client, one) for one in some)
        elif kind in (EventKind.MEMORY, *(one.kind for one in feature_tables())):
            made[str(kind)] += outbox.put_back(kind, chat_id, sorted(some, key=lambda one: one.number))
    return dict(made)


def _set_chat(client: Any, event: Event) -> int:
    """What a chat has set, and what features have of it, unless that is there already; whether anything was missing."""
    tables, missing = chat_tables(), 0
    for name, value in (event.state or {}).items():
        if table := tables.get(name):
            missing += client.hsetnx(table.key, event.chat_id, table.restored(value))
        elif isinstance(value, str):  # else that of a feature which is not there any more
            missing += client.hsetnx(keys.chat_settings(event.chat_id), name, value)
    return int(missing > 0)
