"""The connection to the medium store, for several threads and processes at once.

Writers on SQLite wait for each other (`BEGIN IMMEDIATE`: a transaction that began by reading could not wait, it would fail). Whatever goes
wrong becomes StoreUnavailable, and the next call begins afresh: a server that was restarted, or a file that was put back, is taken up.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import URL, Connection, Engine, Text, create_engine, event, make_url, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from dispatcher.memory.store.migrate import copies, prepare_postgresql, prepare_sqlite
from dispatcher.memory.store.tables import BATCH, metadata
from shared.config.packages import how_to_add
from shared.errors import HmemError, SettingsError, StoreUnavailable

log = structlog.get_logger()

FILE_NAME = "medium.sqlite"
#: The longest that an error's reason is shown, in characters.
_LONGEST = 300
_BUSY_SECONDS = 5.0
_POOL_SECONDS = 10.0
#: Seconds for which a scrub waits for readers and writers.
_SCRUB_SECONDS = 30.0
#: libpq's words: seconds to connect; milliseconds of one statement, of an idle transaction, and until a dead peer is given up.
_POSTGRESQL: dict[str, Any] = {
    "connect_timeout": 5,
    "options": "-c statement_timeout=10000 -c idle_in_transaction_session_timeout=60000",
    "tcp_user_timeout": 10_000,
}
#: `secure_delete`: what is forgotten is overwritten. `synchronous` FULL: typed memories are nowhere else.
_PRAGMAS = ("foreign_keys=ON", "synchronous=FULL", "secure_delete=ON")


class Database:
    """One store: `begin` for a transaction that writes, `reading` for one that reads. Opened, and migrated, at the first of them."""

    def __init__(self, url: str | None, state_dir: Path) -> None:
        """`url` is `MEDIUM_URL`, or nothing for SQLite in the state directory. SettingsError for a URL that cannot be used."""
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
        """Where the store lies, for people: no password."""
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
        """The transaction of the caller, if there is one, else one of its own."""
        if connection is not None:
            yield connection
            return
        with self.begin() if writes else self.reading() as own:
            yield own

    def close(self) -> None:
        """Close idle connections; those in use close when they are given back. The next call opens again."""
        with self._lock:
            self._dispose()

    def scrub(self) -> None:
        """Take what was deleted out of the files too, by writing them anew: rows, SQLite's write-ahead log and the copies made before
        migrations. Call it after forgetting. Of 200,000 turns it takes some seconds, in which others may wait to write.

        PostgreSQL's write-ahead log keeps it until the server has reused the space.
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
            for copy in copies(self.path):
                copy.unlink(missing_ok=True)
        if busy:
            raise StoreUnavailable(
                f"Somebody has been reading the medium store at {self.place} for {_SCRUB_SECONDS:g} s, so what was deleted is still in its log. "
                "Run it again."
            )

    def _vacuum_postgresql(self) -> None:
        with self._errors_named(), self._ready().connect() as connection:
            free = connection.execution_options(isolation_level="AUTOCOMMIT")
            free.execute(text("SET statement_timeout = 0"))
            free.execute(text("SET lock_timeout = '30s'"))  # one long reader must not hold up everybody behind us
            try:
                for table in metadata.sorted_tables:
                    free.execute(text(f"VACUUM FULL {table.name}"))
            finally:
                free.invalidate()  # its limit of a statement's time is gone

    def rows_as_text(self) -> Iterator[tuple[str, str]]:
        """(table, all text of a row) of everything that is stored; for the proof that a text is gone."""
        for table in metadata.sorted_tables:
            columns = [column for column in table.c if isinstance(column.type, Text)]
            with self.reading() as connection:
                for row in connection.execute(select(*columns).execution_options(yield_per=BATCH)):
                    yield table.name, "\t".join(value for value in row if value is not None)

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
                    f"The medium store at {self.place} is damaged: {why}. Put your copy of it back, or move it away: "
                    "a new one is begun then, without the facts, goals and preferences that were in it."
                ) from error
            raise StoreUnavailable(
                f"The medium store at {self.place} does not answer: {why}. "
                "Check that it runs, that there is room on its disk and that this user may write to it; the next call tries again."
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
                # It failed while this thread waited. To try again now would add its time-out to that wait.
                raise StoreUnavailable(self._last_failure)
            return self._open()

    def _open(self) -> Engine:
        self._dispose()
        engine = self._new_engine()
        try:
            with self._errors_named():
                if self.path is None:
                    prepare_postgresql(engine, self.place)
                else:
                    self._refuse_link(self.path)
                    if self._inode is not None and not self.path.exists():
                        log.error(
                            "the medium store is gone and begun anew: what people asked to be kept was in it",
                            place=self.place,
                        )
                    prepare_sqlite(engine, self.path)
                    self._inode = _inode(self.path)
        except BaseException as error:
            self._failures, self._last_failure = self._failures + 1, str(error)
            engine.dispose()
            raise
        self._engine = engine
        return engine

    def _refuse_link(self, path: Path) -> None:
        """In our own directory it is never one; what MEDIUM_URL names may be, since its owner set it."""
        if path.parent == self._ours and path.is_symlink():
            raise StoreUnavailable(
                f"The medium store {path} is a link to {path.readlink()}, so it is not used: somebody else may have put it there. "
                "Look at it, then remove it; MEDIUM_URL names a store that lies elsewhere."
            )

    def _new_engine(self) -> Engine:
        if self.is_sqlite:
            engine = create_engine(
                self._url,
                connect_args={"timeout": _BUSY_SECONDS},
                pool_timeout=_POOL_SECONDS,
                hide_parameters=True,  # what people said does not belong into an error's text
            )
            event.listen(engine, "connect", _set_up_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
            return engine
        options = " ".join(filter(None, (_POSTGRESQL["options"], _text_of(self._url.query.get("options")))))
        own = {name: value for name, value in _POSTGRESQL.items() if name not in self._url.query}
        try:
            return create_engine(
                self._url,
                connect_args=own | {"options": options},
                pool_pre_ping=True,
                pool_timeout=_POOL_SECONDS,
                hide_parameters=True,
            )
        except ImportError as error:
            raise StoreUnavailable(
                f"MEDIUM_URL names PostgreSQL, and its driver is not installed. To add it, {how_to_add('postgresql')}."
            ) from error

    def _same_file(self) -> bool:
        """Whether the open SQLite file is still the one under its name: a file that was put in its place is opened anew."""
        return self.path is None or (self._inode is not None and _inode(self.path) == self._inode)

    def _dispose(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._engine = None


def _text_of(value: str | tuple[str, ...] | None) -> str:
    return " ".join(value) if isinstance(value, tuple) else value or ""


def _is_damaged(error: BaseException) -> bool:
    """Whether SQLite says that the file is broken, or none of its own."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _set_up_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself: `_begin_sqlite` does
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("hmem_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def store_url(url: str | None, state_dir: Path) -> URL:
    """The URL of the store: SQLite in the state directory unless `MEDIUM_URL` names another place. SettingsError for one that is no such URL."""
    if not url:
        return _sqlite(state_dir / FILE_NAME)
    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        # `from None`: the library's own text repeats the URL, password and all.
        raise SettingsError(
            "MEDIUM_URL is no SQLAlchemy URL. Write it like postgresql://user:password@host/database, or leave it out."
        ) from None
    if parts.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        return parts.set(drivername="postgresql+psycopg")
    if parts.get_backend_name() == "sqlite" and parts.database and parts.database != ":memory:":
        return _sqlite(state_dir / parts.database)
    raise SettingsError(
        f"MEDIUM_URL names {parts.drivername}, and the medium store needs PostgreSQL or a SQLite file. "
        "Write postgresql://… or sqlite:////path/medium.sqlite, or leave it out."
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
    lines = str(error.orig if isinstance(error, DBAPIError) else error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"
    secrets = [url.password, *(value for key, value in url.query.items() if "password" in key)]
    for secret in secrets:
        if secret:
            text = text.replace(str(secret), "***")
    return text[:_LONGEST]
