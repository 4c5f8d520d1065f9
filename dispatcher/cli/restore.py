"""`hmem restore`: everything back from a copy of the archive."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from dispatcher.releases.night_command import NightCommandFailed
from shared.system.command import application, print_json, start
from shared.text.format import counted

app = application()


@app.command()
def restore(
    copy: Annotated[
        Path, typer.Argument(metavar="ARCHIVE", help="A copy of HMEM_NIGHT_DIR/archive, such as ARCHIVE_MIRROR.")
    ],
    forgotten: Annotated[
        Path | None,
        typer.Option(
            "--forgotten",
            help="Also forget what this list names: forgotten.jsonl of a state directory, which has no words.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Bring everything back from a copy of the archive: turns, memories, reminders, what chats have set, guests. If it is killed, run it again.

    What this host has forgotten since the copy was made stays forgotten.
    """
    from dispatcher.installation.restore import restore as bring_back
    from dispatcher.memory.hooks import feature_tables

    settings = start("dispatcher", children=("night",))
    try:
        with closing(connect(settings)) as client:
            done = bring_back(settings, client, copy.absolute(), forgotten, lambda text: typer.echo(text, err=True))
    except NightCommandFailed as error:  # its sentence is on our standard error
        raise typer.Exit(error.code if error.code > 0 else 1) from None
    if json:
        print_json(done)
        return
    of_features = {one.kind: (one.one, one.several) for one in feature_tables()}
    names = {"memory": ("memory", "memories"), **of_features, "chat": ("chat", "chats")}
    parts = [counted(done[kind], *name) for kind, name in names.items() if done.get(kind)]
    typer.echo(
        f"Restored{': ' + ', '.join(parts) if parts else ''}. Ask hmem doctor whether all is well, and start the dispatcher."
    )
