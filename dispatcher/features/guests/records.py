"""Guests: chats that an owner has allowed from a chat, beside those of ALLOWED_CHATS. One field a chat in `hcli:mem:guests`.

A removed guest stays there as removed until they are invited again or `hmem forget` erases the chat. What a guest's chat may have stands in the
chat's settings (dispatcher/queue/chats.py), where the dispatcher reads it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader, record_of
from dispatcher.features.guests.keys import GUESTS, invite
from shared.turns.records import RecordRefused, dumps, loads_object


@dataclass(frozen=True)
class Guest:
    """`name`: of the person, or of the group; `since` and `removed` are POSIX seconds; `by`: user id of the owner."""

    chat: str
    name: str
    since: float
    by: str
    removed: float | None = None

    def to_json(self) -> bytes:
        return dumps({name: value for name, value in asdict(self).items() if name != "chat" and value is not None})

    @classmethod
    def parse(cls, chat: bytes, raw: bytes) -> Guest | None:
        """None for a record that this program did not write: it allows nothing."""
        try:
            record = loads_object(raw)
            removed = record.get("removed")
            since, ended = float(record["since"]), None if removed is None else float(removed)
            int(chat)
            return cls(chat.decode("ascii"), str(record.get("name", "")), since, str(record.get("by", "")), ended)
        except (RecordRefused, KeyError, TypeError, ValueError):
            return None


def guests_of(raw: Mapping[bytes, bytes]) -> list[Guest]:
    """Those that are allowed, the newest first."""
    found = (Guest.parse(chat, one) for chat, one in raw.items())
    return sorted((one for one in found if one and one.removed is None), key=lambda one: (-one.since, one.chat))


async def is_guest(chat: int, redis: Redis) -> bool:
    """Whether this chat is allowed now. RedisError while Redis does not answer."""
    try:
        raw = await cast(Awaitable[bytes | None], redis.hget(GUESTS, str(chat)))
    except ResponseError as error:  # a key of another type
        import structlog  # late: `hmem status` counts guests, too

        structlog.get_logger().warning(
            "guests cannot be read, so only ALLOWED_CHATS counts", error=str(error), todo="hmem doctor"
        )
        return False
    guest = Guest.parse(str(chat).encode(), raw) if raw else None
    return guest is not None and guest.removed is None


def guest_chats(client: Any) -> set[int]:
    """The chats that are allowed now, for a synchronous client."""
    try:
        return {int(one.chat) for one in guests_of(client.hgetall(GUESTS))}
    except ResponseError:  # a key of another type
        return set()


def invitations_of(owner: str, reader: RedisReader) -> Iterator[RedisEntry]:
    """Those that this owner has open, for `hmem forget`."""
    for key, raw in reader.scan(invite("*")):
        if record_of(raw).get("by") == owner:
            yield RedisEntry("redis: invitations", key, b"", "key")
