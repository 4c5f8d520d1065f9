"""Makes the tables of a new store, and migrates an older one: under a lock, in one transaction, after a copy of the old file.

A new store gets the tables of tables.py; only an older one goes through the revisions, and only then is Alembic loaded (0.15 s, 11 MB). Two
processes that start together take turns: with a lock file next to SQLite's file, or an advisory lock in PostgreSQL.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from dispatcher.memory.store.tables import HEAD, REVISIONS, VERSION_TABLE, metadata
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
_VERSION = sa.Table(VERSION_TABLE, sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))


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
            create_or_upgrade(connection)


def prepare_postgresql(engine: Engine, place: str) -> None:
    """Create or migrate the tables; several processes may do so together."""
    with engine.connect() as connection:
        if not needs_upgrade(revision(connection), place):
            return
    with engine.begin() as connection:
        connection.execute(sa.text("SET LOCAL statement_timeout = '600s'"))  # a large index takes long
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        if needs_upgrade(revision(connection), place):
            create_or_upgrade(connection)


def revision(connection: Connection) -> str | None:
    """The store's revision, None for an empty one."""
    if not connection.dialect.has_table(connection, VERSION_TABLE):
        return None
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar()


def needs_upgrade(found: str | None, place: str) -> bool:
    """Whether revisions are missing; StoreUnavailable for a store that this version does not know."""
    if found is not None and found not in REVISIONS:
        raise StoreUnavailable(
            f"The day store at {place} has revision {found}, but this program supports revisions up to {HEAD}: a newer version wrote it. "
            "Upgrade this program, or set DAY_STORE_URL to another store."
        )
    return found != HEAD


def create(connection: Connection, version: str) -> None:
    """Make the tables of a new store, in the transaction that `connection` is in; a table of another program in their way is an error."""
    metadata.create_all(connection, checkfirst=False)
    _VERSION.create(connection)
    connection.execute(sa.insert(_VERSION).values(version_num=version))


def create_or_upgrade(connection: Connection) -> None:
    """Make the tables of a new store, or run the missing revisions of an older one, in the transaction that `connection` is in."""
    if revision(connection) is None:
        create(connection, HEAD)
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, HEAD)


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
