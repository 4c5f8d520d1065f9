"""`hmem mcp`."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from dispatcher.cli.arguments import given_id, new_chat, say_notes
from shared.system.command import ChatCommand, application, start

app = application()


@app.command(cls=ChatCommand)
def mcp(
    chat: Annotated[
        str,
        typer.Argument(metavar="CHAT", help="The id of the chat whose memory it is (put -- before a negative one)."),
    ],
    mark: Annotated[
        Path | None, typer.Option(hidden=True, help="A file to create once the facts have been read.")
    ] = None,
) -> None:
    """One chat's memory as MCP tools, over standard input and output."""
    settings = start("dispatcher")
    from dispatcher.features.mcp.server import serve

    chat_id = given_id(settings, chat)
    if mark is None:  # a person's client: the dispatcher knows its chats. A Redis that hangs holds up no answer
        Thread(target=lambda: say_notes(new_chat(settings, chat_id)), daemon=True).start()
    serve(settings, chat_id, mark)
