"""What this bot notes of questions whether Claude may use a tool: which message asks one."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import cast

from dispatcher.bots.telegram.waiting import Waiting
from dispatcher.bots.tool_questions import ToolQuestions
from shared.wire import keys

#: What the buttons have as their commands, with the id of the question; they are none that can be typed.
ALLOW, DENY = "allow", "deny"


class ApprovalState(ToolQuestions):
    """One per bot. Everything may be repeated."""

    async def drop(self, approval_id: str) -> None:
        """The chat knows how it ended."""
        await self._redis.hdel(keys.APPROVALS_OPEN, approval_id)

    async def shown(self, approval_id: str) -> int | None:
        """The message that asks it."""
        raw = cast(bytes | None, await self._redis.get(keys.bot_seen(f"approval-{approval_id}")))
        return int(raw) if raw and raw.isdigit() else None

    async def note_shown(self, approval_id: str, message: int) -> None:
        await self._redis.set(keys.bot_seen(f"approval-{approval_id}"), str(message), ex=keys.BOT_SEEN_TTL_SECONDS)

    async def waiting(self, task_id: str) -> Waiting | None:
        """Where the answer to this task goes: its topic, and the message that it replies to."""
        found = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(keys.BOT_WAITING))
        with suppress(ValueError, TypeError):
            raw = found.get(task_id.encode())
            return Waiting.parse(raw) if raw else None
        return None
