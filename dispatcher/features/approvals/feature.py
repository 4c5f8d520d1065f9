"""Questions in the chat whether Claude may use a tool (APPROVE_TOOLS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.features.approvals.approvals import Approvals
    from dispatcher.features.approvals.settings import ApprovalSettings


@hook
def settings() -> type[ApprovalSettings]:
    from dispatcher.features.approvals.settings import ApprovalSettings

    return ApprovalSettings


@hook
def dispatcher(core: Core) -> Approvals:
    from dispatcher.features.approvals.approvals import Approvals

    return Approvals(core.settings, core.redis)
