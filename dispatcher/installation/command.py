"""`hmem init`: from nothing to a bot that remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shared.errors import InvalidInput
from shared.system.command import application

if TYPE_CHECKING:
    from dispatcher.installation.init.context import InitContext

app = application()


@app.command("init")
def init_(
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Ask nothing: settings come from the environment, the rest takes its default."),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take out everything that hmem init created, but the data.")
    ] = False,
    user: Annotated[bool, typer.Option("--user", help="As root: install for root alone, in root's home.")] = False,
    night_host: Annotated[
        str,
        typer.Option(
            "--night-host",
            metavar="USER@HOST",
            help="Move the nights of this installation to another host, over ssh; with --undo: back to this one.",
        ),
    ] = "",
    day_address: Annotated[
        str,
        typer.Option(
            "--day-address",
            metavar="HOST[:PORT]",
            help="With --night-host: where that host reaches the sshd of this one.",
        ),
    ] = "",
    day_host_key: Annotated[
        str,
        typer.Option(
            "--day-host-key",
            metavar="FILE",
            help="With --night-host: the public key of this host's sshd, if it is not in /etc/ssh.",
        ),
    ] = "",
) -> None:
    """Set everything up and start it: Redis, settings, Claude, the bot, the services, a first night. Run again, it goes on or changes nothing."""
    from dispatcher.installation.init.context import InitContext
    from dispatcher.installation.init.steps import install
    from dispatcher.installation.init.terminal import Terminal, is_for_people
    from dispatcher.installation.init.undo import undo as take_out
    from dispatcher.installation.journal import InstallationJournal
    from dispatcher.installation.layout import layout_here

    if not yes and not is_for_people():
        raise InvalidInput(
            "hmem init asks questions, and there is no terminal to ask on. Run it on one, or use --yes with the settings in the environment "
            "(at least TELEGRAM_BOT_TOKEN and ALLOWED_CHATS)."
        )
    if (day_address or day_host_key) and not night_host:
        raise InvalidInput("--day-address and --day-host-key belong to --night-host. Add that, or leave them out.")
    layout = layout_here(own_user=user)
    installation = InitContext(layout, Terminal(unattended=yes), InstallationJournal(layout.journal), {}, as_user=user)
    try:
        if night_host:
            raise typer.Exit(_night_host(installation, night_host, day_address, day_host_key, undo=undo))
        raise typer.Exit((take_out if undo else install)(installation))
    except KeyboardInterrupt:
        again = f"hmem init{' --undo' if undo else ''}{f' --night-host {night_host}' if night_host else ''}"
        installation.terminal.say(f"\nStopped. Run {again} again: it goes on from here.")
        raise typer.Exit(130) from None


def _night_host(installation: InitContext, name: str, day_address: str, day_host_key: str, *, undo: bool) -> int:
    from dispatcher.installation.night_host.steps import give_nights
    from dispatcher.installation.night_host.undo import take_nights_back

    if undo:
        return take_nights_back(installation, name)
    return give_nights(installation, name, day_address, day_host_key)
