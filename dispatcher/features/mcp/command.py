"""`hmem mcp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shared.system.command import application, start

app = application()


@app.command()
def mcp(
    chat: Annotated[str, typer.Option(help="The chat whose memory it is; --chat=-100 for a negative one.")],
    mark: Annotated[Path | None, typer.Option(hidden=True, help="Is created when the facts have been read.")] = None,
) -> None:
    """One chat's memory as MCP tools, over standard input and output."""
    settings = start("dispatcher")
    from dispatcher.cli.arguments import given_chat
    from dispatcher.features.mcp.server import serve

    serve(settings, given_chat(chat), mark)
