"""`hmem web`."""

from __future__ import annotations

from typing import Annotated

import typer

from shared.config.values import listen_address, named_chats
from shared.errors import InvalidInput
from shared.system.command import application, start

app = application()


@app.command()
def web(
    listen: Annotated[
        str, typer.Option(help="Address and port of the page; else those of WEB_SERVICE, or 127.0.0.1:8765.")
    ] = "",
    chats: Annotated[str, typer.Option(help="Show only these chats, comma-separated.")] = "",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Print only the link that can change nothing.")
    ] = False,
    password: Annotated[
        bool, typer.Option("--password", help="Ask twice for a password that opens the page, store its hash, and end.")
    ] = False,
) -> None:
    """The owner's page: what is remembered, and why each answer was what it was. Prints a link on its first line; runs until it is stopped."""
    from dispatcher.features.web.serve import serve
    from dispatcher.features.web.service import set_password
    from dispatcher.features.web.settings import DEFAULT_ADDRESS, WebSettings

    if password:
        set_password()
        return
    for option, value, check in (("--listen", listen, listen_address), ("--chats", chats, named_chats)):
        try:
            value and check(value)
        except ValueError as error:
            raise InvalidInput(f"{option}: {error}.") from error
    settings = start(children=("night",))
    serve(settings, listen or settings.of(WebSettings).web_service or DEFAULT_ADDRESS, chats, read_only=read_only)
