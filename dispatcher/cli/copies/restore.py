"""`hmem restore`: the way back from a backup."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from dispatcher.cli.copies.backup import PasswordFile
from shared.errors import InvalidInput
from shared.system.command import application, print_json, start
from shared.text.format import counted, zoned_text

if TYPE_CHECKING:
    from pathlib import Path

    from dispatcher.backups.restore import Restored
    from shared.config.settings import Settings

app = application()


@app.command()
def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FROM",
            help="The restic repository that hmem backup wrote to; default: BACKUP_TO.",
            show_default=False,
        ),
    ] = "",
    snapshot: Annotated[str, typer.Option(help="This backup of it, by its id; default: the newest.")] = "",
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="Also where there is something already: the day store is replaced, what is missing is added."
        ),
    ] = False,
    password_file: PasswordFile = None,
    json: Json = False,
) -> None:
    """Bring a backup back to this host: archive, release, day store, today's Redis, settings. Killed at any moment, run it again."""
    _from_backup(source, snapshot, password_file, yes=yes, json=json)


def _from_backup(source: str, snapshot: str, password_file: Path | None, *, yes: bool, json: bool) -> None:
    from dispatcher.backups.restore import restore_backup
    from shared.delivery.copies.password import read_password
    from shared.system.privileges import act_as_owner_of

    settings = start(directory=None, children=("night",))
    given = source.strip() or settings.backup_to or ""
    if not given:
        raise InvalidInput("It is not said where from: give FROM, the repository that hmem backup wrote to.")
    password = read_password(settings, password_file)
    act_as_owner_of(settings.hmem_state_dir, spanning=(settings.hmem_night_dir, settings.hmem_memory_dir))
    with closing(connect(settings)) as client:
        result = restore_backup(settings, client, given, password, snapshot=snapshot or None, yes=yes)
    if json:
        print_json(result.to_json())
        return
    typer.echo(_sentence(result, settings))
    for lack in result.lacks:
        typer.echo(f"note: it lacked {lack}.", err=True)
    for number, sentence in enumerate(result.to_do, start=1):
        typer.echo(f"{number}. {sentence[0].upper()}{sentence[1:]}.")


def _sentence(result: Restored, settings: Settings) -> str:
    parts = result.parts
    archive, release, redis = parts["archive"], parts["release"], parts["redis"]
    what = [
        f"{archive['added']} of {counted(archive['files'], 'file')} of the archive" if archive else "",
        f"release {release['run']}" + ("" if release["current"] else " (a newer one stays in use)") if release else "",
        f"the day store ({counted(parts['day_store'], 'row')})" if parts["day_store"] is not None else "",
        f"{counted(redis['restored'], 'key')} of Redis" + (f" ({redis['there']} were there)" if redis["there"] else ""),
        f"{counted(parts['forgotten'], 'tombstone')}" if parts["forgotten"] else "",
    ]
    at = zoned_text(result.snapshot.at, settings.timezone)
    return f"Restored backup {result.snapshot.short} of {at} from {result.place}: {', '.join(filter(None, what))}; {result.seconds:.1f} s. Next:"
