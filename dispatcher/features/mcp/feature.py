"""One chat's memory as MCP tools, for Claude and for other programs."""

from __future__ import annotations

from collections.abc import Sequence

from shared.hooks import hook
from shared.system.command import CommandEntry


@hook
def commands() -> Sequence[CommandEntry]:
    summary = "One chat's memory as MCP tools, over standard input and output."
    return [CommandEntry("mcp", "dispatcher.features.mcp.command", summary)]
