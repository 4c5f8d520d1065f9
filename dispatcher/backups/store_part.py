"""The day store of a backup: always an SQLite file, whatever server has it; and the way back into either."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection

from dispatcher.memory.store.database import FILE_NAME, Database
from dispatcher.memory.store.kept import back_up, put_back
from dispatcher.memory.store.migrations.migrate import revision
from dispatcher.memory.store.sealed.columns import as_stored
from dispatcher.memory.store.tables import BATCH, HEAD, metadata
from shared.config.settings import Settings
from shared.errors import BackupFailed, StoreUnavailable
from shared.system.files import make_dir


def take_store(settings: Settings, into: Path) -> str | None:
    """A consistent copy of the day store in this directory: what was taken, or None if there is none."""
    if not settings.has_day_store:
        return None
    target = make_dir(into) / FILE_NAME
    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        if database.path is not None:
            if not database.path.exists():
                return None
            back_up(database.path, target)
            return "SQLite"
        with closing(Database(f"sqlite:///{target}", into)) as copy, database.reading() as read:
            read.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))  # all tables of one moment
            with as_stored(), copy.begin() as write:  # encrypted rows stay as they are
                _copy_rows(read, write)
    _as_one_file(target)
    return "PostgreSQL, as an SQLite file"


def put_store_back(settings: Settings, kept: Path) -> int:
    """Make this host's day store what `kept` is, in one transaction; how many rows it has then. It may be repeated."""
    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        if database.path is not None:
            make_dir(database.path.parent)
            if not database.path.exists():
                back_up(kept, database.path)
            else:
                put_back(kept, database.path)
        else:
            with (
                closing(Database(f"sqlite:///{kept}", kept.parent)) as copy,
                copy.reading() as read,
                as_stored(),
                database.begin() as write,
            ):
                for table in reversed(metadata.sorted_tables):
                    write.execute(table.delete())
                _copy_rows(read, write)
                _count_on(write)
        return rows_of(database)


def rows_of(database: Database) -> int:
    """How many rows a store has in all tables."""
    with database.reading() as connection:
        counts = (
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        )
        return int(sum(counts))


def is_used(settings: Settings) -> bool:
    """Whether this host's day store has rows. A file that does not exist is not made."""
    if not settings.has_day_store:
        return False
    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        return rows_of(database) > 0 if database.path is None or database.path.exists() else False


def _copy_rows(read: Connection, write: Connection) -> None:
    """All rows of all tables, within `as_stored`. Both stores have the tables of this version: opening them has migrated them."""
    for one in (read, write):
        if (found := revision(one)) != HEAD:
            raise StoreUnavailable(
                f"The day store has revision {found}, this program {HEAD}. Start hmem run once, then try again."
            )
    for table in metadata.sorted_tables:
        for rows in read.execute(sa.select(table)).mappings().partitions(BATCH):
            write.execute(table.insert(), [dict(row) for row in rows])


def _count_on(write: Connection) -> None:
    """PostgreSQL numbers new rows by counters of their own, which know nothing of rows that came with a number."""
    for table in metadata.sorted_tables:
        (key, *more) = table.primary_key.columns
        if not more and isinstance(key.type, sa.BigInteger) and key.autoincrement is True:
            highest = write.execute(sa.select(sa.func.max(key))).scalar()
            if highest is not None:
                write.execute(sa.select(sa.func.setval(sa.func.pg_get_serial_sequence(table.name, key.name), highest)))


def _as_one_file(path: Path) -> None:
    """Put what is beside an SQLite file into it, so that it can be copied and read as it is."""
    import sqlite3

    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (mode,) = connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    if mode != "delete":
        raise BackupFailed(f"The copy of the day store {path} is in use. Try again.")
    for left in path.parent.glob(f"{path.name}.lock"):
        left.unlink()
