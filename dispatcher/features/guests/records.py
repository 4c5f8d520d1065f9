"""Guests: chats that an owner has allowed from a chat, beside those of ALLOWED_CHATS. One field a chat in `hcli:mem:guests`.

A removed guest stays there as removed until they are invited again or `hmem forget` erases the chat. What a guest's chat may have stands in the
chat's settings (dispatcher/queue/chats.py), where the dispatcher reads it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from redis.asyncio import Redis
from redis.exceptions import ResponseError

from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
from dispatcher.features.guests.keys import GUESTS, invite
from shared.text.format import counted
from shared.text.logs import Logger
from shared.turns.records import RecordRefused
from shared.turns.signed import SignedRecord, secret_in
from shared.wire.json import record_of
from shared.wire.keys import MOVED

if TYPE_CHECKING:
    from dispatcher.health.findings import Finding, Setup


@dataclass(frozen=True)
class Guest(SignedRecord):
    """`name`: of the person, or of the group; `since` and `removed` are POSIX seconds; `by`: user id of the owner."""

    kind = GUESTS
    chat: str
    name: str
    since: float
    by: str
    removed: float | None = None

    def signed(self, secret: str) -> bytes:
        return self.to_json(secret, self.chat)

    @classmethod
    def parse(cls, chat: bytes, raw: bytes, secret: str) -> Guest | None:
        """None for a record that our bot did not write: it allows nothing."""
        with suppress(RecordRefused):
            return cls.verified(secret, chat.decode("utf-8", "replace"), raw)
        return None


def guests_of(raw: Mapping[bytes, bytes], secret: str) -> list[Guest]:
    """Those that are allowed, the newest first."""
    found = (Guest.parse(chat, one, secret) for chat, one in raw.items())
    return sorted((one for one in found if one and one.removed is None), key=lambda one: (-one.since, one.chat))


async def is_guest(chat: str, redis: Redis, secret: str) -> bool:
    """Whether this chat is allowed now. RedisError while Redis does not answer."""
    try:
        raw = await cast(Awaitable[bytes | None], redis.hget(GUESTS, chat))
    except ResponseError as error:  # a key of another type
        _warn("guests cannot be read, so only ALLOWED_CHATS counts", error=str(error))
        return False
    guest = Guest.parse(chat.encode(), raw, secret) if raw else None
    if raw and guest is None:
        _warn("a guest is refused: the record is not signed with our RESULT_HMAC_KEY", chat=chat)
    return guest is not None and guest.removed is None


def _warn(event: str, **more: object) -> None:
    Logger().warning(event, todo="hmem doctor", **more)


def guest_chats(client: Any, secret: str) -> set[str]:
    """The chats that are allowed now, for a synchronous client."""
    try:
        return {one.chat for one in guests_of(client.hgetall(GUESTS), secret)}
    except ResponseError:  # a key of another type
        return set()


def invitations_of(owner: str, reader: RedisReader) -> Iterator[RedisEntry]:
    """Those that this owner has open, for `hmem forget`."""
    for key, raw in reader.scan(invite("*")):
        if record_of(raw).get("by") == owner:
            yield RedisEntry("redis: invitations", key, b"", "key")


def check_guests(setup: Setup) -> Finding:
    """All guests were let in by our bot, which has also noted which groups have a new number."""
    from dispatcher.health.findings import ok, warning  # late: the bot checks nothing
    from dispatcher.queue.chats import moved_chats

    secret, redis = secret_in(setup.settings), setup.redis
    records, moves = (
        cast(dict[bytes, bytes], redis.hgetall(one)) if redis.type(one) == b"hash" else {} for one in (GUESTS, MOVED)
    )
    refused = [chat.decode("utf-8", "replace") for chat, raw in records.items() if not Guest.parse(chat, raw, secret)]
    if secret and (lost := len(moves) - len(moved_chats(moves, secret))):
        return warning(
            f"The new number of {counted(lost, 'group', 'groups')} is not believed: the record in {MOVED} is not signed with this RESULT_HMAC_KEY.",
            "The bot learns it again when it next sends something there, such as a reminder.",
        )
    if not secret or not refused:
        return ok(f"{counted(len(records), 'guest', 'guests')}.")
    return warning(
        f"{counted(len(refused), 'guest is', 'guests are')} refused, because the record is not signed with this RESULT_HMAC_KEY: "
        f"{', '.join(sorted(refused)[:5])}.",
        f"Invite whom you know again. Remove the others: redis-cli HDEL {GUESTS} CHAT.",
    )
