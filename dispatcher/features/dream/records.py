"""What the night leaves in Redis, and what became of it: read, decided, and what of it goes when something is forgotten."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

import orjson
from redis import Redis

from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry
from dispatcher.features.dream import keys as own
from dispatcher.features.dream.putting_in_order import Carried, Dream, Dreaming
from shared.text.format import counted
from shared.text.translations import later
from shared.wire import keys

if TYPE_CHECKING:
    from dispatcher.chat_data.forget.layers.redis_entries import RedisReader

NO_PROPOSAL = later("there is no such proposal")


def parse_dream(raw: bytes) -> Dream | None:
    """None for what is none."""
    try:
        return Dream.from_json(orjson.loads(raw))
    except (KeyError, TypeError, ValueError):
        return None


def read_proposed(client: Redis, chat_id: str) -> list[Dream]:
    """The chat's dreams about which the owner decides, the newest first; what has become too old is removed."""
    found = []
    for name, raw in cast(dict[bytes, bytes], client.hgetall(own.PROPOSED)).items():
        dream = parse_dream(raw)
        if dream is None or time.time() - dream.at > keys.DREAMS_TTL_SECONDS:
            client.hdel(own.PROPOSED, cast(str, name))
        elif dream.chat_id == chat_id:
            found.append(dream)
    return sorted(found, key=lambda one: -one.run)


def decide(client: Redis, dreaming: Dreaming, chat_id: str, run: int, number: int, *, agreed: bool) -> str:
    """Carry out a proposal, or drop it; why it could not be carried out, "" if it was. The last one of a night takes the record with it."""
    dream = next((one for one in read_proposed(client, chat_id) if one.run == run), None)
    change = dreaming.undecided(dream)[0].get(number) if dream else None
    if dream is None or change is None:
        return NO_PROPOSAL
    reason = dreaming.carry_out_one(dream, number, change) if agreed else ""
    if not agreed:
        dreaming.decline(dream, number)
    if not dreaming.undecided(dream)[0]:
        client.hdel(own.PROPOSED, f"{run}:{chat_id}")
    return reason


def result_field(dream: Dream) -> str:
    """Under which its result is noted; where it is, the dream was carried out or offered."""
    return f"{dream.run}:{dream.chat_id}"


def note_result(client: Redis, dream: Dream, carried: Carried) -> None:
    """Note what became of a dream, and keep the newest nights. May be repeated."""
    redis = cast(Any, client)
    redis.hset(own.DREAMT, result_field(dream), orjson.dumps(carried.to_json()))
    fields = {name: int(name.partition(b":")[0]) for name in redis.hkeys(own.DREAMT)}
    kept = sorted(set(fields.values()))[-own.NIGHTS_KEPT :]
    if outdated := [name for name, run in fields.items() if run not in kept]:
        redis.hdel(own.DREAMT, *outdated)


def line_of_night(client: Redis, run: int) -> str | None:
    """What became of a night's changes, for the morning report; None for nothing."""
    total = Carried()
    for name, raw in cast(dict[bytes, bytes], client.hgetall(own.DREAMT)).items():
        if name.startswith(b"%d:" % run):
            one = Carried.from_json(orjson.loads(raw))
            total = Carried(total.changed + one.changed, total.proposed + one.proposed, total.refused + one.refused)
    refused = f"; {counted(total.refused.total(), 'change')} refused" if total.refused else ""
    if total.proposed:
        return f"{counted(total.proposed, 'change')} of facts proposed{refused}"
    return f"{counted(total.changed, 'fact')} changed{refused}" if total.changed or refused else None


def requests_of(chats: Collection[str], reader: RedisReader) -> Iterator[RedisEntry]:
    """Every request to Claude, since it may have words of any chat and the night asks again; of dreams and their results those of these chats."""
    for key in (keys.DREAMS, own.PROPOSED, own.DREAMT):
        for name, raw in reader.fields(key):
            if name.partition(b":")[2].decode("utf-8", "replace") in chats:
                yield RedisEntry("redis: dreams", key.encode(), raw, "field", name=name)
    for key in (keys.ASKED, keys.WRITTEN) if chats else ():
        for name, raw in reader.fields(key):
            yield RedisEntry("redis: requests to Claude", key.encode(), raw, "field", name=name)
