"""Makes the tables of a new store, in one transaction and under a lock, because several processes may open it first: a lock file next to SQLite's
file, an advisory lock in PostgreSQL. A store of another version is refused and left as it is."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import Connection, Engine

from dispatcher.memory.store.tables import VERSION, metadata, version
from shared.errors import StoreUnavailable
from shared.system.files import locked_file, make_dir, opened

_BUSY_SECONDS = 5.0
#: PostgreSQL's number of the lock (any number that only we use).
_ADVISORY_LOCK = 0x686D656D  # "hmem"


def prepare_sqlite(engine: Engine, path: Path) -> None:
    """Create the SQLite file and its tables, unless they are there."""
    make_dir(path.parent)
    with locked_file(path.with_name(f"{path.name}.lock")):
        if not path.exists():  # closing any descriptor of it would release the locks that SQLite holds in this process
            with opened(path, os.O_RDWR | os.O_CREAT):
                pass
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as raw:
            raw.execute("PRAGMA journal_mode=WAL")  # stored in the file; only the first call changes anything
        with engine.connect() as connection:
            if is_made(connection, str(path)):
                return
        with engine.connect().execution_options(hmem_writes=True) as connection, connection.begin():
            create(connection)


def prepare_postgresql(engine: Engine, place: str) -> None:
    """Create the tables, unless they are there."""
    with engine.connect() as connection:
        if is_made(connection, place):
            return
    with engine.begin() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
        if not is_made(connection, place):
            create(connection)


def is_made(connection: Connection, place: str) -> bool:
    """Whether the store has its tables; StoreUnavailable for those of another version."""
    if not connection.dialect.has_table(connection, version.name):
        return False
    found = connection.execute(sa.select(version.c.version_num)).scalar()
    if found != VERSION:
        raise StoreUnavailable(
            f"The day store at {place} has version {found}, but this program supports version {VERSION}: a newer program wrote it. "
            "Upgrade this program, or set DAY_STORE_URL to another store."
        )
    return True


def create(connection: Connection) -> None:
    """Make the tables, in the transaction that `connection` is in; a table of another program in their way is an error."""
    metadata.create_all(connection, checkfirst=False)
    version.create(connection)
    connection.execute(sa.insert(version).values(version_num=VERSION))
