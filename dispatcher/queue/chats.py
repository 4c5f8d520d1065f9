"""What Redis has of a chat beside its tasks: its last messages and answers, and what it has chosen: time zone, language, access."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from redis import Redis, RedisError
from redis.asyncio import Redis as AsyncRedis

from shared.config.settings import Settings
from shared.config.tools import ChatTools
from shared.errors import RedisUnavailable
from shared.text.logs import Logger
from shared.text.translations import language_of
from shared.turns.records import Turn, dumps, turns_of
from shared.turns.signed import sign_record, signed_record
from shared.wire import keys
from shared.wire.json import record_of

log = Logger()

#: The field of a chat's settings.
ACCESS = "access"


class ChatAccess(StrEnum):
    """What a chat outside ALLOWED_CHATS may have, even if the feature that wrote it is gone; without it, what the settings give it.

    limited   Claude has only the tools that CHAT_TOOLS names for this chat
    closed    the same, and nothing is sent or asked by itself
    """

    LIMITED = "limited"
    CLOSED = "closed"


# A group that becomes a supergroup has another number from then on. All that is stored of it stays under the first one: the bot reads and writes the
# new number as the first (telegram/core.py), so nothing else knows of it.


def signed_move(secret: str, chat: int, to: int) -> bytes:
    return sign_record(secret, f"{keys.MOVED} {chat}", {"to": to})


def moved_chats(records: Mapping[bytes, bytes], secret: str) -> dict[int, int]:
    """Group → the supergroup that it has become; without what nobody of us has signed."""
    found = dict[int, int]()
    for chat, raw in records.items():
        try:
            found[int(chat)] = int(signed_record(secret, f"{keys.MOVED} {chat.decode()}", raw)["to"])
        except (ValueError, KeyError, TypeError) as error:
            log.error("a group's new number is not believed", chat=chat.decode("utf-8", "replace"), error=str(error))
    return found


async def tools_of(settings: Settings, redis: AsyncRedis, chat_id: str) -> ChatTools:
    """What Claude may use in a chat. Of a limited chat only what CHAT_TOOLS names for it: its people are neither to run the owner's tools, nor to
    allow them to themselves."""
    limited = chat_id not in settings.allowed and await _is_limited(redis, chat_id)
    return settings.own_tools_of(chat_id) if limited else settings.tools_of(chat_id)


async def _is_limited(redis: AsyncRedis, chat_id: str) -> bool:
    try:
        return bool(await cast(Awaitable[bytes | None], redis.hget(keys.chat_settings(chat_id), ACCESS)))
    except RedisError as error:
        log.error("it is not known what a chat may have, so it has only its own tools", reason=str(error))
        return True


def is_closed(client: Any, chat_id: str) -> bool:
    """For a synchronous client."""
    return bool(client.hget(keys.chat_settings(chat_id), ACCESS) == ChatAccess.CLOSED.encode())


class ChatRecords:
    """What a chat's commands read and write beside the queue: explanations, a message that is asked again, what `/forget` has shown.

    One per dispatcher. Everything may be repeated.
    """

    def __init__(self, redis: AsyncRedis) -> None:
        self._redis = redis

    async def explanations(self, chat_id: str) -> dict[str, bytes]:
        """Task id → what was injected for its answer, as JSON; the newest answer first. Another program's values are left out."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for at in range(1, keys.WHY_LENGTH + 1):
                pipe.lindex(keys.why(chat_id), -at)
            raws = await pipe.execute(raise_on_error=False)
        found: dict[str, bytes] = {}
        for raw in raws:
            if isinstance(raw, bytes) and isinstance(task_id := record_of(raw).get("task_id"), str):
                found.setdefault(task_id, raw)
        return found

    async def question(self, chat_id: str, task_id: str) -> Turn | None:
        """The message of a task of this chat; None if Redis does not have it (any more)."""
        key = keys.turn(task_id, "user")
        return next(iter(turns_of([key], cast(list[bytes | None], await self._redis.mget([key])), chat_id)), None)

    async def keep_selection(self, digest: str, chat_id: str, record: dict[str, object]) -> None:
        await self._redis.set(keys.selection(digest, chat_id), dumps(record), ex=keys.SELECTION_TTL_SECONDS)

    async def selection(self, digest: str, chat_id: str) -> dict[str, object] | None:
        raw = cast(bytes | None, await self._redis.get(keys.selection(digest, chat_id)))
        return record_of(raw or b"") or None

    async def drop_selection(self, digest: str, chat_id: str) -> None:
        await self._redis.delete(keys.selection(digest, chat_id))


FIELD, LANGUAGE_FIELD = "timezone", "language"


class ChatZones:
    """Thread-safe; asks Redis each time, since another dispatcher may have changed it."""

    def __init__(self, client: Redis, default: ZoneInfo) -> None:
        self._redis: Any = client  # it returns bytes; the library's types are bytes or str
        self.default = default

    def of(self, chat_id: str) -> ZoneInfo:
        """RedisUnavailable if it cannot be read: a wrong time would be worse than none."""
        try:
            raw: bytes | None = self._redis.hget(keys.chat_settings(chat_id), FIELD)
        except RedisError as error:
            raise RedisUnavailable(f"The time zone of a chat cannot be read: {error}") from error
        return (zone_named(raw.decode("utf-8", "replace")) if raw else None) or self.default

    def choose(self, chat_id: str, zone: ZoneInfo | None) -> None:
        """The chat's own, or None for the default again: written as empty, so that the archive is told."""
        try:
            self._redis.hset(keys.chat_settings(chat_id), FIELD, zone.key if zone else "")
        except RedisError as error:
            raise RedisUnavailable(f"The time zone of a chat cannot be written: {error}") from error


def chosen_language(client: Redis, chat_id: str) -> str | None:
    """The language that a chat has chosen (an ISO code of LANGUAGES); None if it has chosen none. RedisError if Redis does not answer."""
    redis: Any = client
    raw: bytes | None = redis.hget(keys.chat_settings(chat_id), LANGUAGE_FIELD)
    return language_of(raw.decode("utf-8", "replace")) if raw else None


def zones_of_city(name: str) -> list[str]:
    """The zones of this name in any case, or of a city of this name: `berlin`, `new york`. One of those whose clocks agree."""
    wanted = "_".join(name.split()).casefold()
    found = sorted(
        one for one in available_timezones() if wanted in (one.casefold(), one.casefold().rpartition("/")[2])
    )
    clocks = {tuple(ZoneInfo(one).utcoffset(datetime(2026, month, 1)) for month in (1, 7)) for one in found}  # noqa: DTZ001 - local there
    return found[-1:] if len(clocks) == 1 else found


def zone_named(name: str) -> ZoneInfo | None:
    """The zone of this name; None if this host does not know it. Names of files are none."""
    if not name.isascii() or not 0 < len(name) <= 64 or name.startswith(("/", ".", "posix", "right", "localtime")):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
