"""`hmem-night backup`: the archive of a night host whose day is on another one, into the repository that `hmem backup` there writes to."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from nightly.cli.arguments import Json
from shared.errors import BackupFailed, SettingsError
from shared.system.command import print_json, start


def backup(
    to: Annotated[
        str, typer.Argument(help="The restic repository of hmem backup; default: BACKUP_TO.", show_default=False)
    ] = "",
    init: Annotated[bool, typer.Option("--init", help="Make the repository if it is not there.")] = False,
    keep_daily: Annotated[
        int | None,
        typer.Option(
            "--keep-daily",
            min=1,
            help="Keep one backup of the archive of each of so many days; default: BACKUP_KEEP_DAILY.",
        ),
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", help="File with the password instead of BACKUP_PASSWORD_FILE.")
    ] = None,
    json: Json = False,
) -> None:
    """A backup of the archive alone, where the day is on another host: run it after hmem backup there. A night may run meanwhile."""
    from shared.delivery.copies.password import read_password
    from shared.system.privileges import act_as_owner_of

    begun, settings = time.time(), start("night", directory=None)
    place = to.strip() or settings.backup_to
    if not place:
        raise SettingsError("It is not said where to: give TO, or set BACKUP_TO to the repository of hmem backup.")
    password = read_password(settings, password_file)
    act_as_owner_of(settings.hmem_night_dir)
    days = settings.backup_keep_daily if keep_daily is None else keep_daily
    try:
        made = _make(settings.hmem_night_dir, place, password, init=init, days=days)
    except BlockingIOError as error:
        raise BackupFailed("Another backup is being made on this host. Wait until it ends.") from error
    if json:
        print_json(made)
        return
    typer.echo(
        f"Backup {made['snapshot'][:8]} of the archive is in {made['place']}: {made['segments']} segments, {made['media']} files of messages; "
        f"{time.time() - begun:.1f} s."
    )


def _make(night: Path, place: str, password: bytes, *, init: bool, days: int) -> dict[str, Any]:
    """BlockingIOError if another one is being made."""
    from shared.config.ownership import OURS
    from shared.delivery.copies.restic import ARCHIVE_ONLY, Repository
    from shared.delivery.copies.tree import NIGHT, NIGHT_RECORD, take_night, write_record
    from shared.system.files import PrivateDir, locked_file, make_dir, own_root
    from shared.system.formats import program_version

    folder = own_root(night, OURS["hmem_night_dir"]) / "backups"
    repository = Repository(place, password, folder / "cache")
    with locked_file(make_dir(folder) / "lock", wait=False):
        repository.prepare(make=init)
        staging = PrivateDir(folder / "staging")
        try:
            as_of = time.time()
            counts = take_night(night, make_dir(staging.path / NIGHT))
            record: dict[str, object] = {"program": program_version(), "host": socket.gethostname(), "parts": counts}
            write_record(staging.path / NIGHT, record, NIGHT_RECORD)
            snapshot, there = repository.backup(staging.path, ARCHIVE_ONLY, (staging.descriptor,), as_of)
        finally:
            staging.remove()
        if days:
            repository.keep_daily(days, ARCHIVE_ONLY)
    return {"place": repository.place, "snapshot": snapshot.id, "at": snapshot.at, "snapshots": len(there), **counts}
