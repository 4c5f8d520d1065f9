"""What the night leaves in Redis: read, and what of it goes when something is forgotten."""

from __future__ import annotations

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


def read_dreams(client: Redis, chat_id: str) -> list[Dream]:
    """The chat's dreams that have an answer, the newest first."""
    raws = cast(dict[bytes, bytes], client.hgetall(keys.DREAMS))
    dreams = [dream for raw in raws.values() if (dream := parse_dream(raw)) and dream.answer]
    return sorted((one for one in dreams if one.chat_id == chat_id), key=lambda one: -one.run)


def parse_dream(raw: bytes) -> Dream | None:
    """None for what is none."""
    try:
        return Dream.from_json(orjson.loads(raw))
    except (KeyError, TypeError, ValueError):
        return None


def decide(client: Redis, dreaming: Dreaming, chat_id: str, run: int, number: int, *, agreed: bool) -> str:
    """Carry out a proposal, or drop it; why it could not be carried out, "" if it was. The last one of a night takes the record with it."""
    dream = next((one for one in read_dreams(client, chat_id) if one.run == run), None)
    change = dreaming.undecided(dream).get(number) if dream else None
    if dream is None or change is None:
        return NO_PROPOSAL
    reason = dreaming.carry_out_one(dream, number, change) if agreed else ""
    if not agreed:
        dreaming.decline(dream, number)
    if not dreaming.undecided(dream):
        client.hdel(keys.DREAMS, f"{run}:{chat_id}")
    return reason


def note_result(client: Redis, run: int, carried: Carried) -> None:
    """Add what became of one chat's changes to those of its night, and keep the newest nights."""
    redis = cast(Any, client)
    known = results(client)
    total = known.get(run, Carried())
    total.changed += carried.changed
    total.proposed += carried.proposed
    total.refused += carried.refused
    redis.hset(own.DREAMT, run, orjson.dumps(total.to_json()))
    if outdated := sorted({*known, run})[: -own.NIGHTS_KEPT]:
        redis.hdel(own.DREAMT, *outdated)


def results(client: Redis) -> dict[int, Carried]:
    """Night → what became of its changes."""
    raws = cast(dict[bytes, bytes], client.hgetall(own.DREAMT))
    return {int(run): Carried.from_json(orjson.loads(raw)) for run, raw in raws.items()}


def line_of_night(client: Redis, run: int) -> str | None:
    """What became of a night's changes, for the morning report; None for nothing."""
    found = results(client).get(run, Carried())
    refused = f"; {counted(found.refused.total(), 'change')} refused" if found.refused else ""
    if found.proposed:
        return f"{counted(found.proposed, 'change')} of facts proposed{refused}"
    return f"{counted(found.changed, 'fact')} changed{refused}" if found.changed or refused else None


def requests_of(chats: Collection[str], reader: RedisReader) -> Iterator[RedisEntry]:
    """Every request to Claude, since it may have words of any chat and the night asks again; of dreams those of these chats."""
    for name, raw in reader.fields(keys.DREAMS):
        if name.partition(b":")[2].decode("utf-8", "replace") in chats:
            yield RedisEntry("redis: dreams", keys.DREAMS.encode(), raw, "field", name=name)
    for key in (keys.ASKED, keys.WRITTEN) if chats else ():
        for name, raw in reader.fields(key):
            yield RedisEntry("redis: requests to Claude", key.encode(), raw, "field", name=name)
