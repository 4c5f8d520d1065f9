"""`hmem-night export-archive`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightly.cli.arguments import Json
from shared.errors import InvalidInput
from shared.system.command import print_json, start_night

When = Annotated[str | None, typer.Option(help="ISO 8601 (in CHAT_TIMEZONE if it names no zone) or POSIX seconds.")]


def export_archive(
    out: Annotated[
        Path | None, typer.Option(help="The folder to create; default: hmem-export-<date> in the current directory.")
    ] = None,
    chat: Annotated[
        list[str] | None, typer.Option(help="Only this chat; may be repeated. --chat=-100 for a negative one.")
    ] = None,
    since: When = None,
    until: When = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export of this name.")] = False,
    json: Json = False,
) -> None:
    """Write the archive to files: per chat, JSONL that can be imported again and Markdown to read. Changes nothing in the archive."""
    from nightly.archive import export
    from nightly.night.progress import Reporter
    from shared.system.export_folder import default_folder
    from shared.text.times import given_moment

    settings = start_night()
    wanted = export.ExportScope(
        frozenset(map(_chat, chat or ())),
        given_moment("--since", since, settings.timezone),
        given_moment("--until", until, settings.timezone),
    )
    folder, report = out or default_folder(settings.timezone), Reporter(quiet=json or settings.log_json)
    index = export.export_archive(settings, folder, wanted, report, force=force)
    if json:
        print_json({"out": str(folder.resolve()), **index})
        return
    counts = index["counts"]
    left = f"; {counts['forgotten']} forgotten turns were left out" if counts["forgotten"] else ""
    typer.echo(f"{counts['turns']} turns of {counts['chats']} chats are in {folder}{left}.")


def _chat(value: str) -> str:
    from shared.turns.records import RecordRefused, chat_id_of

    try:
        return chat_id_of(value or None)
    except RecordRefused as error:
        raise InvalidInput(f"--chat {value!r} cannot be a chat id: {error}.") from error
