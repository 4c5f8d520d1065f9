"""`hmem web`: the owner's page."""

from __future__ import annotations

from typing import Annotated

import typer

from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.command import application, start

app = application()


@app.command()
def web(
    listen: Annotated[str, typer.Option(help="Address and port instead of WEB_LISTEN.")] = "",
    chats: Annotated[str, typer.Option(help="Show only these chats, comma-separated, instead of WEB_CHATS.")] = "",
    read_only: Annotated[bool, typer.Option("--read-only", help="Print only a link for a look.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open the link in a browser.")] = False,
) -> None:
    """The owner's page: state, nights, chats, and why each answer was what it was. Prints a link on its first line; runs until it is stopped."""
    settings = start(children=("night",))
    changes = {name: value for name, value in (("web_listen", listen), ("web_chats", chats)) if value}
    settings = _changed(settings, changes)
    from dispatcher.servers.web.serve import serve

    serve(settings, read_only=read_only, open_browser=open_)


def _changed(settings: Settings, changes: dict[str, str]) -> Settings:
    from shared.config.values import listen_address

    if "web_listen" in changes:
        try:
            listen_address(changes["web_listen"])
        except ValueError as error:
            raise InvalidInput(f"--listen: {error}.") from error
    return settings.model_copy(update=changes)
