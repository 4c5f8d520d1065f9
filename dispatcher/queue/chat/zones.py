"""Each chat's own time zone (/timezone) and language, stored in Redis; CHAT_TIMEZONE and English where a chat has chosen none."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog
from redis import Redis, RedisError

from shared.errors import RedisUnavailable
from shared.text.translations import language_of
from shared.wire import keys

log = structlog.get_logger()

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

    def close(self) -> None:
        self._redis.close()


def chosen_language(client: Redis, chat_id: str) -> str | None:
    """The language that a chat has chosen (an ISO code of LANGUAGES); None if it has chosen none. RedisError if Redis does not answer."""
    redis: Any = client
    raw: bytes | None = redis.hget(keys.chat_settings(chat_id), LANGUAGE_FIELD)
    return language_of(raw.decode("utf-8", "replace")) if raw else None


def zone_named(name: str) -> ZoneInfo | None:
    """The zone of this name; None if this host does not know it. Names of files are none."""
    if not name.isascii() or not 0 < len(name) <= 64 or name.startswith(("/", ".", "posix", "right", "localtime")):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
