"""Which tools Claude has in a guest's chat."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.config.settings import Settings
from shared.config.tools import ChatTools
from shared.wire import keys

log = structlog.get_logger()


class GuestTools:
    """What Claude may use in a chat, also in a guest's."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self._settings, self._redis, self._allowed = settings, redis, {str(chat) for chat in settings.allowed}

    async def tools_of(self, chat_id: str) -> ChatTools:
        """For a guest that is only what CHAT_TOOLS names for this chat: whoever has got an invitation is not to run the owner's tools, nor to allow
        them to themselves."""
        guest = chat_id not in self._allowed and await self._is_guest(chat_id)
        return self._settings.own_tools_of(chat_id) if guest else self._settings.tools_of(chat_id)

    async def _is_guest(self, chat_id: str) -> bool:
        try:
            return bool(await cast(Awaitable[bytes | None], self._redis.hget(keys.GUESTS, chat_id)))
        except RedisError as error:
            log.error("it is not known whether a chat is a guest's, so it gets a guest's tools", reason=str(error))
            return True
