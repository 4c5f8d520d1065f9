"""Questions in the chat whether Claude may use a tool (APPROVE_TOOLS)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from dispatcher.answering.hooks import Core
    from dispatcher.bots.telegram.core import BotCore
    from dispatcher.chat_data.forget.layers.redis_entries import RedisEntry, RedisReader
    from dispatcher.chat_data.forget.request import Scope
    from dispatcher.features.approvals.approvals import Approvals
    from dispatcher.features.approvals.telegram import ApprovalMessages


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "Which tools Claude asked for in the chats (APPROVE_TOOLS), with what, and who allowed or denied each; oldest first, the last 1,000."
    return [CommandEntry("approvals", "dispatcher.features.approvals.command", summary)]


@hook
def dispatcher(core: Core) -> Approvals:
    from dispatcher.features.approvals.approvals import Approvals

    return Approvals(core.settings, core.redis)


@hook
def telegram_bot(core: BotCore) -> ApprovalMessages:
    from dispatcher.features.approvals.telegram import ApprovalMessages

    return ApprovalMessages(core)


@hook
async def terminal_waits(redis: Redis, secret: str, task_id: str, ask: Callable[[str], bool | None]) -> None:
    from dispatcher.features.approvals.questions import ask_at_terminal

    await ask_at_terminal(redis, secret, task_id, ask)


@hook
def redis_entries(scope: Scope, reader: RedisReader) -> Iterable[RedisEntry]:
    from dispatcher.features.approvals.forgetting import approvals_of

    return approvals_of(scope, reader)
