"""What a chat may have that is not in ALLOWED_CHATS, as its settings in Redis say it, whether or not the feature that wrote that is still there.

limited   Claude has only the tools that CHAT_TOOLS names for this chat
closed    the same, and nothing is sent or asked by itself
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import StrEnum
from typing import Any, cast

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.config.settings import Settings
from shared.config.tools import ChatTools
from shared.wire import keys

log = structlog.get_logger()

#: The field of a chat's settings.
ACCESS = "access"


class ChatAccess(StrEnum):
    """A value of the field; without it, a chat has what the settings give it."""

    LIMITED = "limited"
    CLOSED = "closed"


class ToolAccess:
    """What Claude may use in a chat."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self._settings, self._redis, self._allowed = settings, redis, {str(chat) for chat in settings.allowed}

    async def tools_of(self, chat_id: str) -> ChatTools:
        """Of a limited chat only what CHAT_TOOLS names for it: its people are neither to run the owner's tools, nor to allow them to themselves."""
        limited = chat_id not in self._allowed and await self._is_limited(chat_id)
        return self._settings.own_tools_of(chat_id) if limited else self._settings.tools_of(chat_id)

    async def _is_limited(self, chat_id: str) -> bool:
        try:
            return bool(await cast(Awaitable[bytes | None], self._redis.hget(keys.chat_settings(chat_id), ACCESS)))
        except RedisError as error:
            log.error("it is not known what a chat may have, so it has only its own tools", reason=str(error))
            return True


def is_closed(client: Any, chat_id: str) -> bool:
    """For a synchronous client."""
    return bool(client.hget(keys.chat_settings(chat_id), ACCESS) == ChatAccess.CLOSED.encode())
