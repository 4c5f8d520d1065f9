"""Migrates a store to the revision of this version: under a lock, in one transaction, after a copy of the old file.

The revision is read with plain SQL: Alembic (0.15 s, 11 MB) is loaded only for a store that is new or has an earlier revision. Two processes that
start together take turns: with a lock file next to SQLite's file, or an advisory lock in PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from dispatcher.memory.store.tables import HEAD, REVISIONS, VERSION_TABLE
from shared.errors import StoreUnavailable
from shared.system.faults import crash_point
from shared.system.files import fsync_dir, locked_file, make_dir, opened

_BUSY_SECONDS = 5.0
#: PostgreSQL's number of the lock for migrations (any number that only we use).
_ADVISORY_LOCK = 0x686D656D  # "hmem"
MIGRATIONS = Path(__file__).parent
_COPY = ".before-"
#: Alembic keeps its state in the module: one upgrade at a time in a process.
_ALEMBIC = threading.Lock()


def prepare_sqlite(engine: Engine, path: Path) -> None:
    """Create or migrate the SQLite file; several processes may do so together."""
    make_dir(path.parent)
    with locked_file(path.with_name(f"{path.name}.lock")):
        if not path.exists():  # closing any descriptor of it would release the locks that SQLite holds in this process
            with opened(path, os.O_RDWR | os.O_CREAT):
                pass
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as raw:
            raw.execute("PRAGMA journal_mode=WAL")  # stored in the file; only the first call changes anything
        with engine.connect() as connection:
            found = revision(connection)
            missing = needs_upgrade(found, str(path))
        if not missing:
            return
        if found is not None:
            _copy(path)
        with engine.connect().execution_options(hmem_writes=True) as connection, connection.begin():
            upgrade(connection)


def prepare_postgresql(engine: Engine, place: str) -> None:
    """Create or migrate the tables; several processes may do so together."""
    with engine.connect() as connection:
        if not needs_upgrade(revision(connection), place):
            return
    with engine.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = '600s'"))  # a large index takes long
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        if needs_upgrade(revision(connection), place):
            upgrade(connection)


def revision(connection: Connection) -> str | None:
    """The store's revision, None for an empty one."""
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    table = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
    found: str | None = connection.execute(sa.select(table.c.version_num)).scalar()
    return found


def needs_upgrade(found: str | None, place: str) -> bool:
    """Whether revisions are missing; StoreUnavailable for a store that this version does not know."""
    if found is not None and found not in REVISIONS:
        raise StoreUnavailable(
            f"The day store at {place} has revision {found}, but this program supports revisions up to {HEAD}: a newer version wrote it. "
            "Upgrade this program, or set DAY_STORE_URL to another store."
        )
    return found != HEAD


def upgrade(connection: Connection, target: str | None = None) -> None:
    """Run the missing revisions up to `target` (None: all) in the transaction that `connection` is in."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, target or HEAD)


def _copy(path: Path) -> None:
    """Copy the file as it was before the migration, and no older copy."""
    kept = path.with_name(f"{path.name}{_COPY}{HEAD}")
    _back_up(path, kept)
    for old in copies(path):
        if old != kept:
            old.unlink(missing_ok=True)


def _back_up(source: Path, target: Path) -> None:
    """A consistent copy of a file that may be in use; it appears under its name whole and durable, or not at all."""
    temporary = target.with_name(f".{target.name}.tmp")
    for left in target.parent.glob(f"{temporary.name}*"):  # of a copy that a kill cut short, and its log
        left.unlink()
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with (
            closing(sqlite3.connect(source, timeout=_BUSY_SECONDS)) as read,
            closing(sqlite3.connect(temporary, timeout=_BUSY_SECONDS)) as written,
        ):
            read.backup(written)
        with closing(sqlite3.connect(temporary)) as copy:  # one file, also while it is read
            copy.execute("PRAGMA journal_mode=DELETE")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    crash_point("store:copied")
    temporary.replace(target)
    fsync_dir(target.parent)


def copies(path: Path) -> list[Path]:
    """The copies made before migrations, and what a kill left of half-made ones."""
    return sorted(found for dot in ("", ".") for found in path.parent.glob(f"{dot}{path.name}{_COPY}*"))
