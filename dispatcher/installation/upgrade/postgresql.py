"""The day store on a PostgreSQL server: its copy by pg_dump, if that is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from sqlalchemy import make_url

from dispatcher.memory.store.kept import WORDS
from dispatcher.memory.store.tables import VERSION_TABLE, metadata
from shared.errors import UpgradeFailed
from shared.system.files import fsync_dir
from shared.system.processes import last_line, run_bounded

DUMP = f"{WORDS}.dump"
#: Seconds for the whole dump.
DUMP_SECONDS = 3_600.0


def keep(url: str, folder: Path, locks: tuple[int, ...] = ()) -> str:
    """Dump our tables into `folder`; what was done, as a sentence. UpgradeFailed if pg_dump is there and fails.

    `locks`: descriptors of locks that last as long as pg_dump runs.
    """
    if shutil.which("pg_dump") is None:
        return (
            "pg_dump is not installed, so there is no copy of the day store: going back is possible only as long as its format stays. Install the "
            "client of PostgreSQL, or rely on your own backups."
        )
    parts = make_url(url).set(drivername="postgresql")
    secret = {} if parts.password is None else {"PGPASSWORD": str(parts.password)}
    place = parts.set(password=None).render_as_string(
        hide_password=False
    )  # the password is not shown to whoever lists processes
    tables = [f"--table={name}" for name in (VERSION_TABLE, *(table.name for table in metadata.sorted_tables))]
    temporary = folder / f".{DUMP}.tmp"
    command = ["pg_dump", "--format=custom", f"--file={temporary}", *tables, place]
    try:
        done = run_bounded(command, DUMP_SECONDS, environment=_environment() | secret, descriptors=locks)
    except subprocess.TimeoutExpired as error:
        raise UpgradeFailed(f"pg_dump did not end within {DUMP_SECONDS / 60:g} minutes. Check the server.") from error
    if done.returncode:
        temporary.unlink(missing_ok=True)
        raise UpgradeFailed(f"pg_dump could not copy the day store: {last_line(done)}")
    temporary.chmod(0o600)
    temporary.replace(folder / DUMP)
    fsync_dir(folder)
    return f"The day store is copied to {folder / DUMP}."


def how_back(folder: Path) -> str:
    """What the owner does if the version before cannot read the day store any more."""
    if not (folder / DUMP).exists():
        return "The day store on the server stays as it is."
    return (
        f"The day store on the server stays as it is. If hmem doctor says that its format is newer: stop the services, then pg_restore --clean "
        f"--if-exists --dbname=DAY_STORE_URL {folder / DUMP}"
    )


def _environment() -> dict[str, str]:
    from shared.config.credentials import for_child

    with for_child(only=()) as (environment, _):
        return {name: value for name, value in environment.items() if name in ("PATH", "HOME", "LANG")}
