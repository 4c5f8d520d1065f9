"""`hmem init`: from nothing to a bot that remembers."""

from __future__ import annotations

from typing import Annotated

import typer

from shared.errors import InvalidInput
from shared.system.command import application

app = application()


@app.command("init")
def init_(
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: settings come from the environment, the rest takes its default.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Remove everything that hmem init created, except the data.")
    ] = False,
    user: Annotated[bool, typer.Option("--user", help="As root: install for root alone, in root's home.")] = False,
) -> None:
    """Set everything up and start it: Redis, settings, Claude, the bot, the services, a first night. Safe to rerun: it resumes, or does nothing."""
    from dispatcher.installation.init.in_progress import InstallationInProgress, Terminal, is_for_people
    from dispatcher.installation.init.steps import install
    from dispatcher.installation.init.undo import undo as take_out
    from dispatcher.installation.layout import layout_here

    if not yes and not is_for_people():
        settings = " with the settings in the environment (at least TELEGRAM_BOT_TOKEN and ALLOWED_CHATS)"
        raise InvalidInput(
            f"hmem init asks questions, and there is no terminal to ask on. Run it on one, or add --yes{'' if undo else settings}."
        )
    layout = layout_here(own_user=user)
    installation = InstallationInProgress(layout, Terminal(unattended=yes), {}, as_user=user)
    try:
        raise typer.Exit((take_out if undo else install)(installation))
    except KeyboardInterrupt:
        installation.terminal.say(f"\nStopped. Run hmem init{' --undo' if undo else ''} again: it goes on from here.")
        raise typer.Exit(130) from None
