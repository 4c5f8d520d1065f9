"""`hmem-night report`: the last nights for the owner, in the terminal or as a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightly.cli.arguments import Json
from shared.errors import InvalidInput
from shared.system.command import print_json, start_night
from shared.text.format import counted

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from shared.config.settings import Settings

#: Most nights at once: each is read from the disk.
MOST_NIGHTS = 1000


def report(
    html: Annotated[
        Path | None, typer.Option(help="Write one page to this file (mode 0600); its ledger names chats.")
    ] = None,
    nights: Annotated[int, typer.Option(min=1, max=MOST_NIGHTS, help="How many nights.")] = 14,
    json: Json = False,
) -> None:
    """Show the last night in ten lines and the nights before it as a table, or write them as one page with charts."""
    from nightly.night.report.record import read_report
    from nightly.pipeline import step_names

    settings = start_night()
    if html:
        _refuse_unusable(html)
    found = read_report(settings, step_names(), nights)
    if html:
        _write(html, settings, found)
    if json:
        print_json(found)
    elif html:
        typer.echo(f"{counted(len(found), 'night is', 'nights are')} in {html}.")
    elif not found:
        typer.echo("No night has ended on this host yet. Run hmem-night run.")
    else:
        _print(found, settings.timezone)


def _refuse_unusable(html: Path) -> None:
    """InvalidInput if the page cannot be written there: said before anything is read."""
    if html.is_dir():
        raise InvalidInput(f"--html {html} is a directory. Name a file, such as {html / 'nights.html'}.")
    if html.exists() and not html.is_file():
        raise InvalidInput(f"--html {html} is not a file, so it is not replaced. Name another.")
    if not html.absolute().parent.is_dir():
        raise InvalidInput(
            f"--html {html}: there is no directory {html.absolute().parent}. Create it, or name another."
        )


def _write(html: Path, settings: Settings, found: list[dict[str, Any]]) -> None:
    from nightly.cli.status import COLUMNS, cells_of, chat_rows, ledger_line, read_nights
    from nightly.night.counts import counts_of
    from nightly.night.report.page import ChatLedger, page
    from nightly.night.report.refused import refused_in
    from shared.system.files import write_atomic

    nights = read_nights(settings, [night["run"] for night in found])
    accounts = {night["run"]: line for night in nights if (line := ledger_line(night["steps"]))}
    refused = [
        one for night in nights for one in refused_in(night["run"], night["summary"] or counts_of(night["steps"]))
    ]
    last = next((night for night in reversed(nights) if night["ledger"]), None)
    ledger = ChatLedger(last["run"], COLUMNS, [cells_of(row) for row in chat_rows(last["steps"])]) if last else None
    write_atomic(html.resolve(), page(found, accounts, refused, ledger, settings.timezone).encode("utf-8", "replace"))


def _print(nights: list[dict[str, Any]], zone: ZoneInfo) -> None:
    """Ten lines about the last night, and a table of all."""
    from nightly.cli.tables import print_table
    from nightly.night.report.words import brief, lines_of

    for what, how in lines_of(nights[-1], zone):
        sys.stdout.write(f"{what + ':':16} {how}\n")
    rows = [brief(night, zone) for night in nights]
    title = "The last night" if len(rows) == 1 else f"The last {len(rows)} nights"
    sys.stdout.write("\n")
    sys.stdout.flush()
    print_table(title, list(rows[0]), [list(row.values()) for row in rows], dense=True)
