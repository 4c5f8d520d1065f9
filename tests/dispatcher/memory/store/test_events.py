"""Events of memories: noted with their effect, handed to Redis, and put back into an empty store, on either engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
from redis import Redis

from dispatcher.memory.store import events
from dispatcher.memory.store.event_outbox import EventOutbox
from dispatcher.memory.store.memories import Memories, Memory, MemoryType
from dispatcher.memory.store.tables import event_outbox, metadata
from shared.turns.events import Event, EventChange, EventKind
from shared.wire import keys
from tests.support.stores import Stores

CHAT = "9912"


class Day:
    """The tables of a store."""

    def __init__(self, database: Any) -> None:
        self.database, self.outbox = database, EventOutbox(database)
        self.memories = Memories(database)

    def fact(self, text: str, **more: Any) -> Memory:
        return self.memories.add(Memory(CHAT, MemoryType.FACT, text, created=100.0, **more))

    def lose_all(self) -> None:
        with self.database.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(sa.delete(table))


@pytest.fixture
def day(stores: Stores) -> Day:
    return Day(stores.open())


def taken(redis: Redis) -> dict[str, Event]:
    """The events in Redis, as the night takes them."""
    found = {}
    for key in redis.scan_iter(match=f"{keys.EVENT_PREFIX}*"):
        raw: Any = redis.getdel(key)
        event = Event.parse(key, raw)
        found[event.id] = event
    return found


def seen(day: Day) -> list[object]:
    """What the store has, without its own ids: of a replaced memory the uid of the other one."""
    uids = {one.memory_id: one.uid for one in day.memories.every()}
    return [
        (uids.get(one.superseded_by or 0), replace(one, memory_id=0, superseded_by=None))
        for one in day.memories.every()
    ]


EFFECTS: list[tuple[Callable[[Day, Memory], object], EventChange]] = [
    (lambda day, one: day.memories.touch(CHAT, [one.memory_id], 200.0), EventChange.USED),
    (lambda day, one: day.memories.reinforce(one, 200.0, wordings=["b"]), EventChange.CHANGED),
    (lambda day, one: day.memories.supersede(CHAT, one.memory_id, day.fact("new").memory_id, 2.0), EventChange.REPLACED),
    (lambda day, one: day.memories.complete(CHAT, one.memory_id, 200.0), EventChange.DONE),
    (lambda day, one: day.memories.mark_reminded(CHAT, one.memory_id, 200.0), EventChange.DUE),
    (lambda day, one: day.memories.delete(CHAT, one.memory_id), EventChange.HIDDEN),
]  # fmt: skip


def test_each_effect_on_a_memory_is_an_event_with_its_state(day: Day, redis: Redis) -> None:
    for effect, what in EFFECTS:
        one = day.memories.add(Memory(CHAT, MemoryType.GOAL, "a", 100.0, deadline=300.0))
        assert events.hand_over(day.outbox, redis) == 1
        assert taken(redis)[one.uid].what is EventChange.MADE
        effect(day, one)
        events.hand_over(day.outbox, redis)
        event = taken(redis)[one.uid]
        assert (event.what, event.number, event.kind) == (what, one.number, EventKind.MEMORY)
        assert (event.state is None) == (what is EventChange.HIDDEN)
        assert events.hand_over(day.outbox, redis) == 0


def test_an_effect_that_is_rolled_back_leaves_no_event_and_a_vector_makes_none(day: Day, redis: Redis) -> None:
    one = day.fact("a")
    events.hand_over(day.outbox, redis)
    taken(redis)
    with pytest.raises(ZeroDivisionError), day.memories.transaction() as connection:
        day.memories.complete(CHAT, one.memory_id, 1.0, connection=connection)
        day.memories.add(Memory(CHAT, MemoryType.FACT, "b", created=1.0), connection=connection)
        _ = 1 / 0
    day.memories.change(CHAT, one.memory_id, None, embedding=b"\0\0\0\0", embedding_model="m")
    assert events.hand_over(day.outbox, redis) == 0


def test_a_change_while_events_are_handed_over_is_handed_over_too(day: Day, redis: Redis) -> None:
    one = day.fact("a")
    waiting = day.outbox.waiting(10)
    day.memories.reinforce(one, 200.0)
    day.outbox.remove(waiting)
    assert [event.event.what for event in day.outbox.waiting(10)] == [EventChange.CHANGED]
    day.memories.touch(CHAT, [one.memory_id], 300.0)  # does not hide that it changed
    assert [event.event.what for event in day.outbox.waiting(10)] == [EventChange.CHANGED]


def test_an_empty_store_becomes_what_it_was(day: Day, redis: Redis) -> None:
    old, gone = day.fact("the flight is on the 13th", source_turn="t1:user", wordings=("13 Nov",)), day.fact("x")
    new = day.fact("the flight is on the 14th", importance=5)
    day.memories.supersede(CHAT, old.memory_id, new.memory_id, 150.0)
    day.memories.delete(CHAT, gone.memory_id)
    events.hand_over(day.outbox, redis)
    archived = [*taken(redis).values()]
    before = seen(day)
    day.lose_all()
    assert events.put_back(day.outbox, redis, archived, []) == {"memory": 2}
    assert seen(day) == before
    assert events.put_back(day.outbox, redis, archived, []) == {"memory": 0}
    assert day.fact("next").number == 4
    assert new.number == 3


def test_what_was_forgotten_since_is_not_put_back_and_a_number_that_is_taken_is_not_used_twice(
    day: Day, redis: Redis
) -> None:
    one, two = day.fact("first of an old store"), day.fact("forgotten since")
    events.hand_over(day.outbox, redis)
    archived = [*taken(redis).values()]
    day.lose_all()
    day.fact("first of a new store")
    assert events.put_back(day.outbox, redis, archived, [two.uid]) == {"memory": 1}
    assert {memory.text: memory.number for memory in day.memories.every()} == {"first of a new store": 1, "first of an old store": 2}  # fmt: skip
    assert one.uid in {memory.uid for memory in day.memories.every()}


def test_what_a_chat_has_set_comes_back_unless_it_was_set_since(day: Day, redis: Redis) -> None:
    state = {"timezone": "Europe/Lisbon", "language": "de", "of a feature that is gone": {"since": 1.0}}
    redis.hset(keys.chat_settings(CHAT), "language", "en")
    event = Event(EventKind.CHAT, CHAT, CHAT, EventChange.CHANGED, 1.0, state)
    assert events.put_back(day.outbox, redis, [event], []) == {"chat": 1}
    assert redis.hgetall(keys.chat_settings(CHAT)) == {b"language": b"en", b"timezone": b"Europe/Lisbon"}


def test_what_is_of_a_feature_that_is_not_there_is_left_where_it_is(day: Day, redis: Redis) -> None:
    """In the store's outbox, from where it would be told as gone, and in an archive."""
    note = {"kind": "tide", "uid": "a1", "chat_id": CHAT, "number": 1, "what": "made", "at": 1.0, "mark": "m"}
    with day.database.begin() as connection:
        connection.execute(sa.insert(event_outbox).values(note))
    day.fact("a")
    assert events.hand_over(day.outbox, redis) == 1
    with day.database.reading() as connection:
        assert connection.execute(sa.select(event_outbox.c.kind)).scalars().all() == ["tide"]
    event = Event("tide", "a1", CHAT, EventChange.MADE, 1.0, {"text": "high water"}, 1)
    assert events.put_back(day.outbox, redis, [event], []) == {}
