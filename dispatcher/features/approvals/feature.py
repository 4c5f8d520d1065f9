"""Questions in the chat whether Claude may use a tool (APPROVE_TOOLS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.features.approvals.approvals import Approvals


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "Which tools Claude asked for in the chats (APPROVE_TOOLS), with what, and who allowed or denied each; oldest first, the last 1,000."
    return [CommandEntry("approvals", "dispatcher.features.approvals.command", summary)]


@hook
def dispatcher(core: Core) -> Approvals:
    from dispatcher.features.approvals.approvals import Approvals

    return Approvals(core.settings, core.redis)
