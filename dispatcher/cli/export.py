"""`hmem export`: everything that is stored of one chat, for the person it belongs to."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.arguments import Json, connect, given_chat
from shared.system.command import application, print_json, start
from shared.system.files import safe_name

app = application()


@app.command()
def export(
    chat: Annotated[str, typer.Option(help="The chat whose memory it is; --chat=-100 for a negative one.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The folder to create; default: hmem-export-<chat>-<date> in the current directory."),
    ] = None,
    json: Json = False,
) -> None:
    """Export everything that is stored of one chat as readable files: turns, typed memories, summaries. Changes nothing."""
    from dispatcher.export.chat import export_chat
    from shared.system.export_folder import default_folder

    settings, chat_id = start(), given_chat(chat)
    folder = out or default_folder(settings.timezone, safe_name(chat_id))
    with closing(connect(settings)) as client:
        report = export_chat(settings, client, chat_id, folder)
    if json:
        print_json(report | {"out": str(folder.resolve())})
        return
    for note in report["notes"]:
        typer.echo(f"note: {note}", err=True)
    if cleaned := report["sources"]["release"]:
        typer.echo(
            f"note: {cleaned} turns are given as the release's cleaned text, because the archive is not on this host.",
            err=True,
        )
    typer.echo(
        f"{report['turns']} turns, {report['memories']} memories and the summaries of chat {chat_id} are in {folder}."
    )
