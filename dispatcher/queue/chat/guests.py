"""Guests: chats that an owner has allowed from a chat, beside those of ALLOWED_CHATS. One field a chat in `hcli:mem:guests`.

A removed guest stays there as removed, so that bot and dispatcher both know it, until they are invited again or `hmem forget` erases the chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from redis.exceptions import ResponseError

from shared.turns.records import RecordRefused, dumps, loads_object
from shared.wire import keys


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


def allowed_guests(client: Any) -> set[int]:
    """Their chats, for a synchronous client."""
    return {int(one.chat) for one in guests_of(client.hgetall(keys.GUESTS))}


def is_removed(client: Any, chat_id: str) -> bool:
    """Whether an owner has removed this guest."""
    try:
        raw = client.hget(keys.GUESTS, chat_id)
    except ResponseError:  # a key of another type
        return False
    guest = Guest.parse(chat_id.encode(), raw) if raw else None
    return guest is not None and guest.removed is not None
