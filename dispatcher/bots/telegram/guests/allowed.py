"""Which chats the bot answers: those of ALLOWED_CHATS, and the guests, which are read anew each time."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from dispatcher.queue.chat.guests import Guest, guests_of
from shared.wire import keys

log = structlog.get_logger()


class AllowedChats:
    """One per bot. RedisError while Redis does not answer."""

    def __init__(self, chats: frozenset[int], redis: Redis) -> None:
        self._chats, self._redis = chats, redis
        self._told = False

    async def has(self, chat: int) -> bool:
        return chat in self._chats or await self._guest(chat) is not None

    async def guests(self) -> list[Guest]:
        """The newest first."""
        return guests_of(await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(keys.GUESTS)))

    async def _guest(self, chat: int) -> Guest | None:
        try:
            raw = await cast(Awaitable[bytes | None], self._redis.hget(keys.GUESTS, str(chat)))
        except ResponseError as error:  # a key of another type
            if not self._told:
                self._told = True
                log.warning("guests cannot be read, so only ALLOWED_CHATS counts", error=str(error), todo="hmem doctor")
            return None
        guest = Guest.parse(str(chat).encode(), raw) if raw else None
        return guest if guest and guest.removed is None else None
