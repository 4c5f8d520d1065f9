"""`hmem backup`: make a copy of this installation with restic, try it out, and remove old ones."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dispatcher.cli.arguments import Json, connect
from shared.config.settings import Settings
from shared.errors import BackupDamaged, SettingsError
from shared.system.command import application, print_json, start
from shared.text.format import counted, zoned_text

if TYPE_CHECKING:
    from dispatcher.backups.make import MadeBackup
    from dispatcher.backups.trial import TrialResult

app = application()

To = Annotated[
    str,
    typer.Argument(
        help="The restic repository: a directory, sftp:user@host:/path, s3:…, rest:https://…; default: BACKUP_TO.",
        show_default=False,
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="File with the password of the repository instead of BACKUP_PASSWORD_FILE."),
]


@app.command()
def backup(
    to: To = "",
    init: Annotated[
        bool, typer.Option("--init", help="Make the repository if it is not there, without asking.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Make none: try the newest one out in a scratch directory. Exit code 56 if it is not good."
        ),
    ] = False,
    keep_daily: Annotated[
        int | None,
        typer.Option(
            "--keep-daily",
            min=1,
            help="Keep one backup of each of so many days, and remove the others; default: BACKUP_KEEP_DAILY.",
        ),
    ] = None,
    forget_older: Annotated[
        bool,
        typer.Option(
            "--forget-older",
            help="Then remove the backups from before the last hmem forget, which still hold what it erased.",
        ),
    ] = False,
    password_file: PasswordFile = None,
    new_password: Annotated[
        Path | None,
        typer.Option("--new-password", help="Only write a new password into this file, which must not exist."),
    ] = None,
    scheduled: Annotated[
        bool, typer.Option("--scheduled", help="As the timer runs it: also try a backup out, once a week.")
    ] = False,
    every_day: Annotated[
        bool, typer.Option("--every-day", help="Stay, and do that each day at BACKUP_AT, for hosts without timers.")
    ] = False,
    json: Json = False,
) -> None:
    """A backup of archive, release, day store, today's Redis and settings (without secrets) in a restic repository; nothing is stopped."""
    from shared.delivery.copies.password import make_password, read_password
    from shared.system.privileges import act_as_owner_of

    if new_password:
        make_password(new_password)
        typer.echo(
            f"A new password is in {new_password}. Keep a copy elsewhere: without it no backup can be read. Set BACKUP_PASSWORD_FILE to it."
        )
        return
    settings = start(directory=None, children=("night",))
    to, password = _place(settings, to), read_password(settings, password_file)
    act_as_owner_of(settings.hmem_state_dir, spanning=(settings.hmem_night_dir, settings.hmem_memory_dir))
    if every_day:
        _every_day(settings, to, password)
    elif verify:
        _verify(settings, to, password, json=json)
    else:
        days = settings.backup_keep_daily if keep_daily is None else keep_daily
        _back_up(settings, to, password, init=init, days=days, forget_older=forget_older, json=json)
        if scheduled:
            _verify_weekly(settings, to, password)


def _place(settings: Settings, given: str) -> str:
    if to := given.strip() or settings.backup_to or "":
        return to
    raise SettingsError(
        "It is not said where to: give TO, or set BACKUP_TO to a restic repository, such as /mnt/disk/hmem-backup."
    )


def _back_up(
    settings: Settings, to: str, password: bytes, *, init: bool, days: int, forget_older: bool, json: bool
) -> None:
    from dispatcher.backups.make import make_backup
    from shared.delivery.copies.restic import RepositoryMissing

    with closing(connect(settings)) as client:
        try:
            made = make_backup(settings, client, to, password, init=init, keep_daily=days)
        except RepositoryMissing:
            if not (sys.stdin.isatty() and typer.confirm("There is no restic repository there. Make one?", err=True)):
                raise
            made = make_backup(settings, client, to, password, init=True, keep_daily=days)
    removed, stay = _forget_older(settings, to, password, made) if forget_older else (None, [])
    if json:
        print_json(made.to_json() | {"forgotten_snapshots": removed, "not_forgotten": stay})
        return
    typer.echo(_sentence(made, settings))
    for lack in made.lacks:
        typer.echo(f"note: it lacks {lack}.", err=True)
    if made.left_out:
        typer.echo(f"note: secrets are left out, and a restore needs them again: {', '.join(made.left_out)}.", err=True)
    if removed is not None:
        next_step = "" if stay else " hmem forget --resume completes its receipt."
        typer.echo(f"Removed {counted(len(removed), 'backup')} from before the last forgetting.{next_step}")
    for sentence in stay:
        typer.echo(f"note: {sentence}.", err=True)


def _sentence(made: MadeBackup, settings: Settings) -> str:
    archive, redis = made.parts["archive"], made.parts["redis"]
    what = [
        f"{counted(archive['segments'], 'file')} of the archive and {counted(archive['media'], 'file')} of messages"
        if archive
        else "",
        f"release {made.parts['release']}" if made.parts["release"] is not None else "",
        f"the day store ({made.parts['day_store']})" if made.parts["day_store"] else "",
        f"{counted(sum(redis.values()), 'key')} of Redis with {counted(redis['turns'], 'turn')}",
    ]
    new = " (a new repository)" if made.repository_made else ""
    older = f" {counted(made.removed, 'older one')} removed." if made.removed else ""
    at = zoned_text(made.snapshot.at, settings.timezone)
    return f"Backup {made.snapshot.short} of {at} is in {made.place}{new}: {', '.join(filter(None, what))}; {made.seconds:.1f} s.{older}"


def _forget_older(settings: Settings, to: str, password: bytes, made: MadeBackup) -> tuple[list[str], list[str]]:
    """(ids of the removed ones, why others stay)."""
    from dispatcher.backups.make import forget_older
    from dispatcher.backups.record import alone, open_repository
    from dispatcher.chat_data.forget.receipt import words_gone_at

    before = words_gone_at(settings.hmem_state_dir)
    if before is None:
        return [], []
    with alone(settings.hmem_state_dir):
        repository = open_repository(to, password, settings.hmem_state_dir)
        removed, stay = forget_older(settings, repository, before, archive=bool(made.parts["archive"]))
    return [one.id for one in removed], stay


def _verify(settings: Settings, to: str, password: bytes, *, json: bool) -> None:
    from dispatcher.backups.trial import try_out

    result = try_out(settings, to, password)
    if json:
        print_json(result.to_json())
    elif not result.faults:
        typer.echo(_verdict(result, settings))
    for lack in [] if json else result.lacks:
        typer.echo(f"note: it lacks {lack}.", err=True)
    if result.faults:
        faults = " ".join(fault.rstrip(".") + "." for fault in result.faults)
        raise BackupDamaged(f"The backup {result.snapshot.short} in {result.place} is not good. {faults}")


def _verdict(result: TrialResult, settings: Settings) -> str:
    archive, asked = result.checked.get("archive"), result.gate
    what = [
        "every byte of the repository was read",
        f"the archive is intact ({counted(archive['segments'], 'segment')}, {counted(archive['turns'], 'turn')})"
        if archive
        else "",
        f"the release is intact ({counted(result.checked['release'], 'file')})" if "release" in result.checked else "",
        f"{asked['found_now']} of {asked['questions']} questions find their answer, as {asked['found_before']} do in the release in use"
        if asked
        else "",
        "the day store is intact" if "day store" in result.checked else "",
        f"{counted(result.checked.get('redis') or 0, 'key')} of Redis",
    ]
    at = zoned_text(result.snapshot.at, settings.timezone)
    return (
        f"The backup {result.snapshot.short} of {at} is good: {'; '.join(filter(None, what))}; {result.seconds:.1f} s."
    )


def _verify_weekly(settings: Settings, to: str, password: bytes) -> None:
    from dispatcher.backups.record import VERIFY_SECONDS, known_repositories
    from shared.delivery.copies.restic import shown_place

    here = [one for one in known_repositories(settings.hmem_state_dir).values() if one.place == shown_place(to)]
    if not any(one.verified and time.time() - (one.verified_at or 0) < VERIFY_SECONDS for one in here):
        _verify(settings, to, password, json=False)


def _every_day(settings: Settings, to: str, password: bytes) -> None:
    """A run that fails says so, and the next day's is tried all the same; hmem doctor sees how old the last good one is."""
    from datetime import datetime, timedelta

    from shared.system.command import translate

    while True:
        hour, minute = map(int, settings.backup_at.split(":"))
        now = datetime.now(settings.timezone)
        next_run = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        next_run += timedelta(days=next_run <= now)
        typer.echo(f"The next backup is made at {next_run:%Y-%m-%d %H:%M} ({settings.chat_timezone}).", err=True)
        time.sleep(max(1.0, next_run.timestamp() - time.time()))
        try:
            _back_up(
                settings, to, password, init=False, days=settings.backup_keep_daily, forget_older=False, json=False
            )
            _verify_weekly(settings, to, password)
        except Exception as error:  # the program stays, whatever one run met
            if (ours := translate(error)) is None:
                raise
            typer.echo(f"{type(ours).__name__}: {ours}", err=True)
