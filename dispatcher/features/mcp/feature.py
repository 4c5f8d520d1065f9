"""One chat's memory as MCP tools, for Claude and for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook
from shared.system.command import CommandEntry

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.features.mcp.claude_server import MemoryTools


@hook
def dispatcher(core: Core) -> MemoryTools | None:
    from dispatcher.features.mcp.settings import McpSettings

    if core.settings.of(McpSettings).memory_mcp == "off":
        return None
    from dispatcher.features.mcp.claude_server import MemoryTools

    return MemoryTools(core.settings)


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "One chat's memory as MCP tools, over standard input and output."
    return [CommandEntry("mcp", "dispatcher.features.mcp.command", summary)]
