"""Connections to a PostgreSQL with pgvector: where it is, what it must have, time limits, and errors without a password.

Psycopg is imported late: a release without such an index is read without it. Everything that a server may do wrong is a DatabaseUnavailable.
"""

from __future__ import annotations

import math
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from shared.config.settings import Settings
from shared.errors import SettingsError
from shared.vectors.on_server import first_line

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

#: Connections that wait for the next question.
IDLE = 4
#: Seconds after which a server that is silent, though its own time limit has passed, loses the connection.
GRACE_SECONDS = 0.5
#: The oldest pgvector that stores half precision.
LEAST_VERSION = (0, 7)
#: What refuses to be passing: another attempt with the same settings fails as well.
_REFUSALS = ("28", "3D", "42", "0A")  # authorization, no such database, rights and syntax, not supported


class DatabaseUnavailable(Exception):
    """The server did not answer, or refused. `refused`: with its rights or settings as they are, it will refuse again."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


@contextmanager
def answered() -> Iterator[None]:
    """What the driver raises, as DatabaseUnavailable."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        refused = (error.sqlstate or "").startswith(_REFUSALS)
        raise DatabaseUnavailable(first_line(error) or type(error).__name__, refused=refused) from error
    except OSError as error:
        raise DatabaseUnavailable(first_line(error) or type(error).__name__) from error


def url_of(settings: Settings) -> str:
    """PGVECTOR_URL, or DAY_STORE_URL if that names PostgreSQL, as libpq reads it; SettingsError if neither does."""
    for url in (settings.pgvector_url, settings.day_store_url):
        scheme, _, rest = (url or "").partition("://")
        if scheme.partition("+")[0].lower() in ("postgresql", "postgres"):
            return f"postgresql://{rest}"
    raise SettingsError(
        "The pgvector index needs a PostgreSQL server: set PGVECTOR_URL, such as postgresql://user:password@host/database "
        "(if unset, DAY_STORE_URL is used, which names no PostgreSQL here)."
    )


def schema_of(settings: Settings) -> str:
    """The schema of an installation: two that share a database have none of their tables in common."""
    return f"{settings.index_name}_vectors"


def connected(settings: Settings, seconds: float) -> Connection:
    """A connection without transactions of its own, in which a statement has so many seconds. DatabaseUnavailable, SettingsError.

    Tables are looked up in our schema, which may not exist yet, then in that of the extension.
    """
    connection = _connect(settings, seconds)
    try:
        with answered(), limited(connection, seconds):
            _prepare(connection, schema_of(settings))
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(settings: Settings, seconds: float) -> Connection:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    url = url_of(settings)
    try:
        own = conninfo_to_dict(url).get("options")
    except psycopg.ProgrammingError:
        # `from None`: the library's text repeats parts of the URL, which contains a password
        raise SettingsError(
            "PGVECTOR_URL (DAY_STORE_URL if unset) is not an URL that PostgreSQL's driver can read. "
            "Write it like postgresql://user:password@host/database, with special characters of the password as %XX."
        ) from None
    # JIT compilation takes longer than our queries.
    options = f"-c statement_timeout={int(seconds * 1000)} -c jit=off"
    with answered():
        return psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=max(2, math.ceil(seconds)),  # libpq knows no shorter one
            tcp_user_timeout=int(seconds * 1000),
            keepalives_idle=math.ceil(
                seconds
            ),  # by default a host that vanished while we wait is noticed after two hours
            options=f"{own or ''} {options}".strip(),
            application_name="hcli-memory",
        )


_EXTENSION = """
    SELECT n.nspname, e.extversion FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'
"""


def _prepare(connection: Connection, schema: str) -> None:
    from pgvector.psycopg import register_vector
    from psycopg import sql

    found = connection.execute(_EXTENSION).fetchone()
    if found is None:
        _add_extension(connection)
        found = connection.execute(_EXTENSION).fetchone()
    home, version = (str(one) for one in found or ("public", "0"))
    if tuple(int(one) for one in version.split(".")[:2]) < LEAST_VERSION:
        raise SettingsError(
            f"The PostgreSQL of PGVECTOR_URL (DAY_STORE_URL if unset) has pgvector {version}; 0.7 or newer is needed. Install a newer one "
            "there, then run ALTER EXTENSION vector UPDATE in this database."
        )
    if connection.info.parameter_status("server_encoding") != "UTF8":
        raise SettingsError(
            "The database of PGVECTOR_URL (DAY_STORE_URL if unset) is not in UTF-8, so it cannot store every chat's id. "
            "Create one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0, and set PGVECTOR_URL to it."
        )
    path = sql.SQL("SET search_path = {}, {}").format(sql.Identifier(schema), sql.Identifier(home))
    connection.execute(path)
    register_vector(connection)


def _add_extension(connection: Connection) -> None:
    import psycopg

    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        raise SettingsError(
            f"The database of PGVECTOR_URL (DAY_STORE_URL if unset) has no pgvector, and it cannot be added ({first_line(error)}). "
            "Install pgvector on that server, then run CREATE EXTENSION vector in this database as a superuser."
        ) from error


@contextmanager
def limited(connection: Connection, seconds: float) -> Iterator[None]:
    """End the connection of a server that does not react within `seconds`: its own time limit does not help if it is stopped."""
    own = socket.socket(fileno=os.dup(connection.fileno()))
    timer = threading.Timer(seconds + GRACE_SECONDS, _shut, (own,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        own.close()


def _shut(own: socket.socket) -> None:
    with suppress(OSError):  # answered in the meantime
        own.shutdown(socket.SHUT_RDWR)


class Pool:
    """Connections for the threads that ask, each with one of its own while it asks."""

    def __init__(self, settings: Settings, seconds: float) -> None:
        self._settings, self._seconds = settings, seconds
        self._idle: list[Connection] = []
        self._closed = False
        self._lock = threading.Lock()

    @contextmanager
    def use(self) -> Iterator[Connection | None]:
        """A connection; None if the pool was closed. After an error it is not used again."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
            if self._closed:
                yield None
                return
        connection = connection or connected(self._settings, self._seconds)
        try:
            with limited(connection, self._seconds), answered():
                yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            keep = not self._closed and len(self._idle) < IDLE
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def close(self) -> None:
        """Connections in use are closed by who uses them."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
