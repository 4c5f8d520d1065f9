"""The connection to the day store, for several threads and processes, of which any may make its tables: in one transaction, under a lock file next
to SQLite's file, or an advisory lock in PostgreSQL. A store of another version is refused and left as it is.

Writers on SQLite wait for each other (`BEGIN IMMEDIATE`: a transaction that began by reading would fail instead of waiting). Every error
becomes StoreUnavailable, and the next call opens again, so that a restarted server or a restored file is used.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Text,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from dispatcher.memory.hooks import feature_tables
from dispatcher.memory.store.tables import BATCH, VERSION, metadata, version
from shared.config.packages import how_to_add
from shared.errors import HmemError, SettingsError, StoreUnavailable
from shared.system.files import locked_file, make_dir, opened
from shared.text.logs import Logger

log = Logger()

FILE_NAME = "day-store.sqlite"
#: The longest reason of an error that is shown, in characters.
_LONGEST = 300
_BUSY_SECONDS = 5.0
_POOL_SECONDS = 10.0
#: PostgreSQL's number of the lock (any number that only we use).
_ADVISORY_LOCK = 0x686D656D  # "hmem"
#: How long a scrub waits for readers and writers. Seconds.
_SCRUB_SECONDS = 30.0
#: libpq's limits: seconds to connect; milliseconds for one statement, for an idle transaction, and until a dead connection is closed.
_POSTGRESQL: dict[str, Any] = {
    "connect_timeout": 5,
    "options": "-c statement_timeout=10000 -c idle_in_transaction_session_timeout=60000",
    "tcp_user_timeout": 10_000,
}
#: `secure_delete`: deleted data is overwritten. `synchronous` FULL: typed memories are stored nowhere else.
_PRAGMAS = ("foreign_keys=ON", "synchronous=FULL", "secure_delete=ON")


class Database:
    """One store: `begin` for a transaction that writes, `reading` for one that reads. Opened, and created, at the first of them."""

    def __init__(self, url: str | None, state_dir: Path) -> None:
        """`url` is `DAY_STORE_URL`; None or "" means SQLite in the state directory. SettingsError for an unusable URL."""
        feature_tables()  # which adds them to the metadata
        self._url = store_url(url, state_dir)
        self._ours = state_dir
        self._engine: Engine | None = None
        self._inode: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._failures = 0
        self._last_failure = ""

    @property
    def is_sqlite(self) -> bool:
        return self._url.get_backend_name() == "sqlite"

    @property
    def place(self) -> str:
        """The store's location for people, without the password."""
        return shown(self._url)

    @property
    def path(self) -> Path | None:
        """SQLite's file."""
        return Path(str(self._url.database)) if self.is_sqlite else None

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction that may write: committed at the end, rolled back by an exception."""
        with self._errors_named(), self._ready().connect() as connection:
            connection.execution_options(hmem_writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads: on SQLite it waits for no writer."""
        with self._errors_named(), self._ready().connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def joined(self, connection: Connection | None, *, writes: bool = True) -> Iterator[Connection]:
        """The transaction of the caller, if there is one, else a new one."""
        if connection is not None:
            yield connection
            return
        with self.begin() if writes else self.reading() as own:
            yield own

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are returned. The next call opens again."""
        with self._lock:
            self._dispose()

    def scrub(self) -> None:
        """Remove deleted data from the files as well by rewriting them: rows, SQLite's write-ahead log.
        Call it after forgetting. With 200,000 turns it takes some seconds, in which other writers may have to wait.

        PostgreSQL's write-ahead log contains the data until the server has reused the space.
        """
        if self.path is None:
            self._vacuum_postgresql()
            return
        with self._errors_named(), self._ready().connect() as connection:
            raw: Any = connection.connection.dbapi_connection
            raw.execute(f"PRAGMA busy_timeout={int(_SCRUB_SECONDS * 1000)}")
            raw.execute("VACUUM")  # outside a transaction, as is the next line: else they do nothing
            busy = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            raw.execute(f"PRAGMA busy_timeout={int(_BUSY_SECONDS * 1000)}")
        if busy:
            raise StoreUnavailable(
                f"Another program has been reading the day store at {self.place} for {_SCRUB_SECONDS:g} s, so deleted data is still in its log. "
                "Run it again."
            )

    def _vacuum_postgresql(self) -> None:
        with self._errors_named(), self._ready().connect() as connection:
            free = connection.execution_options(isolation_level="AUTOCOMMIT")
            free.execute(text("SET statement_timeout = 0"))
            # One long reader must not block everyone who waits behind us.
            free.execute(text("SET lock_timeout = '30s'"))
            try:
                for table in metadata.sorted_tables:
                    free.execute(text(f"VACUUM FULL {table.name}"))
            finally:
                free.invalidate()  # it no longer has a time limit for statements

    def rows_as_text(self) -> Iterator[tuple[str, str]]:
        """(table, all text of a row) of every row; for the scan that proves that a text is gone."""
        for table in metadata.sorted_tables:
            columns = [column for column in table.c if isinstance(column.type, Text)]
            with self.reading() as connection:
                for row in connection.execute(select(*columns).execution_options(yield_per=BATCH)):
                    yield table.name, "\t".join(value for value in row if value is not None)

    def left_tables(self) -> list[str]:
        """Tables of features that were taken out, with rows: nobody here reads, writes or erases them."""
        of_chats = {"chat_id", "number", "uid", "source_turn"}  # as each has them (dispatcher/memory/hooks.py)
        with self._errors_named(), self._ready().connect() as connection:
            seen = inspect(connection)
            names = [name for name in seen.get_table_names() if name not in metadata.tables]
            left = [name for name in names if of_chats <= {one["name"] for one in seen.get_columns(name)}]
            quoted = connection.dialect.identifier_preparer.quote
            rows = {name: select(text("1")).select_from(text(quoted(name))).limit(1) for name in left}
            return [name for name, some in rows.items() if connection.execute(some).first()]

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except HmemError:
            raise
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            why = reason(error, self._url)
            if _is_damaged(error):
                raise StoreUnavailable(
                    f"The day store at {self.place} is damaged: {why}. Restore your backup of it, or move it away: "
                    "then a new one is created, without the facts, goals and preferences of the old one."
                ) from error
            what, running = ("cannot be used", "") if self.is_sqlite else ("does not answer", "it is running, that ")
            raise StoreUnavailable(
                f"The day store at {self.place} {what}: {why}. "
                f"Check that {running}its disk has free space and that this user may write to it; it is tried again each time."
            ) from error

    def _ready(self) -> Engine:
        """The engine of a store that has the tables of this version."""
        failures, engine = self._failures, self._engine
        if engine is not None and self._same_file():
            return engine
        with self._lock:
            if self._engine is not None and self._same_file():
                return self._engine
            if self._failures != failures:
                # It failed while this thread waited. Trying again now would add another timeout to that wait.
                raise StoreUnavailable(self._last_failure)
            return self._open()

    def _open(self) -> Engine:
        self._dispose()
        engine = self._new_engine()
        try:
            with self._errors_named():
                if self.path is not None:
                    self._refuse_link(self.path)
                    if self._inode is not None and not self.path.exists():
                        log.error(
                            "the day store has disappeared, with its facts, goals and preferences; creating a new one",
                            place=self.place,
                        )
                with nullcontext() if self.path is None else _sqlite_alone(self.path):
                    self._make_tables(engine)
                self._inode = _inode(self.path) if self.path else None
                self._engine = engine
        except BaseException as error:
            self._failures, self._last_failure = self._failures + 1, str(error)
            self._engine = None
            engine.dispose()
            raise
        return engine

    def _make_tables(self, engine: Engine) -> None:
        """Unless they are there."""
        with engine.connect() as connection:
            there = connection.dialect.has_table
            if self._is_made(connection) and all(there(connection, one.table.name) for one in feature_tables()):
                return
        with engine.connect().execution_options(hmem_writes=True) as connection, connection.begin():
            if self.path is None:
                connection.execute(select(func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
            if not self._is_made(connection):
                metadata.create_all(connection, checkfirst=False)  # a table of another program in their way is an error
                version.create(connection)
                connection.execute(insert(version).values(version_num=VERSION))
            metadata.create_all(connection)  # those of features that have come since

    def _is_made(self, connection: Connection) -> bool:
        """StoreUnavailable for tables of another version."""
        if not connection.dialect.has_table(connection, version.name):
            return False
        found = connection.execute(select(version.c.version_num)).scalar()
        if found != VERSION:
            raise StoreUnavailable(
                f"The day store at {self.place} has version {found}, but this program supports version {VERSION}: a newer program wrote it. "
                "Upgrade this program, or set DAY_STORE_URL to another store."
            )
        return True

    def _refuse_link(self, path: Path) -> None:
        """A link in our own directory is refused; DAY_STORE_URL may name one, because the owner set it."""
        if path.parent == self._ours and path.is_symlink():
            raise StoreUnavailable(
                f"The day store {path} is a link to {path.readlink()}, so it is not used: another user may have created it. "
                "Check the link, then remove it. To use a store in another place, set DAY_STORE_URL."
            )

    def _new_engine(self) -> Engine:
        # Hidden, because conversations do not belong in an error's text.
        common: dict[str, Any] = {"pool_timeout": _POOL_SECONDS, "hide_parameters": True}
        if self.is_sqlite:
            engine = create_engine(self._url, connect_args={"timeout": _BUSY_SECONDS}, **common)
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        options = " ".join(filter(None, (_POSTGRESQL["options"], _text_of(self._url.query.get("options")))))
        own = {name: value for name, value in _POSTGRESQL.items() if name not in self._url.query}
        try:
            return create_engine(self._url, connect_args=own | {"options": options}, pool_pre_ping=True, **common)
        except ImportError as error:
            raise StoreUnavailable(
                f"DAY_STORE_URL names PostgreSQL, but its driver is not installed. To add it, {how_to_add('postgresql')}."
            ) from error

    def _same_file(self) -> bool:
        """Whether the open SQLite file is still the one at its path: a replaced file is opened again."""
        return self.path is None or (self._inode is not None and _inode(self.path) == self._inode)

    def _dispose(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._engine = None


def _text_of(value: str | tuple[str, ...] | None) -> str:
    return " ".join(value) if isinstance(value, tuple) else value or ""


def _is_damaged(error: BaseException) -> bool:
    """Whether SQLite reports that the file is damaged, or not a database."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def _sqlite_alone(path: Path) -> Iterator[None]:
    """While no other process opens the file, which is there, and private."""
    make_dir(path.parent)
    with locked_file(path.with_name(f"{path.name}.lock")):
        if not path.exists():  # closing any descriptor of it would release the locks that SQLite holds in this process
            with opened(path, os.O_RDWR | os.O_CREAT):
                pass
        with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as raw:
            raw.execute("PRAGMA journal_mode=WAL")  # stored in the file; only the first call changes anything
        yield


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins no transaction by itself: `_begin_sqlite` does
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("hmem_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def store_url(url: str | None, state_dir: Path) -> URL:
    """The URL of the store: SQLite in the state directory unless `DAY_STORE_URL` names another place. SettingsError for an unusable URL."""
    if not url:
        return _sqlite(state_dir / FILE_NAME)
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        # `from None`: the library's own text repeats the URL, password and all.
        raise SettingsError(
            "DAY_STORE_URL is not an SQLAlchemy URL. Write it like postgresql://user:password@host/database, or leave it out."
        ) from None
    if parts.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parts.set(drivername="postgresql+psycopg")
    if parts.get_backend_name() == "sqlite" and parts.database and parts.database != ":memory:":
        return _sqlite(state_dir / parts.database)
    raise SettingsError(
        f"DAY_STORE_URL names {parts.drivername}, but the day store requires PostgreSQL or an SQLite file. "
        "Write postgresql://… or sqlite:////path/day-store.sqlite, or leave it out."
    )


def _sqlite(path: Path) -> URL:
    return URL.create("sqlite+pysqlite", database=str(path.absolute()))


def shown(url: URL) -> str:
    """The store's place for people: a path, or the URL without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(query={}).render_as_string(hide_password=True)


def reason(error: Exception, url: URL) -> str:
    """The first line of an error, without the statement, its values, or a password of the URL."""
    said = error.orig if isinstance(error, DBAPIError) else getattr(error, "strerror", None) or error
    text = next(iter(str(said).strip().splitlines()), type(error).__name__).rstrip(".")
    secrets = [url.password, *(value for key, value in url.query.items() if "password" in key)]
    for secret in secrets:
        if secret:
            text = text.replace(str(secret), "***")
    return text[:_LONGEST]
