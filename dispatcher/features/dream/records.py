"""What the night leaves in Redis, and what became of it: as it is read, and what of it goes when something is forgotten."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from redis import Redis

from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry
from dispatcher.features.dream import keys as own
from shared.text.format import counted
from shared.turns.note_changes import Dream
from shared.wire import keys

if TYPE_CHECKING:
    from dispatcher.chat_data.forget.layers.redis_entries import RedisReader

Record = TypeVar("Record", bound=BaseModel)


class WritingRequest(BaseModel):
    """What the night asks Claude; of an answer to it only the time is read."""

    at: float
    prompt: str = ""
    model: str = ""


class Carried(BaseModel):
    """What became of the changes of a night: how many were carried out or proposed, and of the others how many for which reason."""

    changed: int = 0
    proposed: int = 0
    refused: Counter[str] = Counter()


def parse(kind: type[Record], raw: bytes) -> Record | None:
    """None for what is none."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError:
        return None


def read_proposed(client: Redis, chat_id: str) -> list[Dream]:
    """The chat's dreams about which the owner decides, the newest first; what has become too old is removed."""
    found = []
    for name, raw in cast(dict[bytes, bytes], client.hgetall(own.PROPOSED)).items():
        dream = parse(Dream, raw)
        if dream is None or time.time() - dream.at > keys.DREAMS_TTL_SECONDS:
            client.hdel(own.PROPOSED, cast(str, name))
        elif dream.chat_id == chat_id:
            found.append(dream)
    return sorted(found, key=lambda one: -one.run)


def result_field(dream: Dream) -> str:
    """Under which its result is noted; where it is, the dream was carried out or offered."""
    return f"{dream.run}:{dream.chat_id}"


def note_result(client: Redis, dream: Dream, carried: Carried) -> None:
    """Note what became of a dream, and keep the newest nights. May be repeated."""
    redis = cast(Any, client)
    redis.hset(own.DREAMT, result_field(dream), carried.model_dump_json())
    fields = {name: int(name.partition(b":")[0]) for name in redis.hkeys(own.DREAMT)}
    kept = sorted(set(fields.values()))[-own.NIGHTS_KEPT :]
    if outdated := [name for name, run in fields.items() if run not in kept]:
        redis.hdel(own.DREAMT, *outdated)


def line_of_night(client: Redis, run: int) -> str | None:
    """What became of a night's changes, for the morning report; None for nothing."""
    total = Carried()
    for name, raw in cast(dict[bytes, bytes], client.hgetall(own.DREAMT)).items():
        if name.startswith(b"%d:" % run):
            one = Carried.model_validate_json(raw)
            total.changed, total.proposed = total.changed + one.changed, total.proposed + one.proposed
            total.refused += one.refused
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
