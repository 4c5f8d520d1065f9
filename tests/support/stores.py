"""Real engines for the tests of the medium store: SQLite in a directory, and a PostgreSQL server of `pgserver`."""

from __future__ import annotations

import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from dispatcher.memory.store.database import Database


class PostgreSQL:
    """One server in a directory of its own; `database` makes an empty database in it."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of platformdirs, about XDG_RUNTIME_DIR
            from pgserver.postgres_server import get_server

            self.folder = Path(tempfile.mkdtemp(prefix="hmem-pg-"))  # a short path: its socket lies there
            self._server: Any = get_server(self.folder / "data")
        self._run("ALTER SYSTEM SET fsync = off")  # what a test writes need not outlive the machine
        self._run("SELECT pg_reload_conf()")

    def url(self, name: str = "postgres") -> str:
        return str(self._server.get_uri(database=name))

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        self._run(f"CREATE DATABASE {name} STRATEGY file_copy")
        return self.url(name)

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())

    def control(self, *arguments: str) -> None:
        """`pg_ctl`."""
        import pgserver._commands

        vars(pgserver._commands)["pg_ctl"](
            [*arguments], pgdata=self._server.pgdata, user=self._server.system_user, timeout=100
        )

    def stop(self) -> None:
        self.control("-w", "-m", "fast", "stop")

    def start(self) -> None:
        self.control("-w", "-o", '-h ""', "-o", f"-k {self._server.pgdata}", "-l", str(self._server.log), "start")

    def remove(self) -> None:
        self.stop()  # pgserver's own clean-up stops only the process that it started itself
        self._server.cleanup()
        shutil.rmtree(self.folder)


@contextmanager
def postgresql_server() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    try:
        yield server
    finally:
        server.remove()


class Stores:
    """Makes databases on one engine; closes them all at the end."""

    def __init__(self, engine: str, folder: Path, server: PostgreSQL) -> None:
        self.engine = engine
        self.folder = folder / "state"
        self.url = server.database() if engine == "postgresql" else ""
        self._opened: list[Database] = []

    def open(self) -> Database:
        """Another connection to the same store."""
        self._opened.append(Database(self.url, self.folder))
        return self._opened[-1]

    def close(self) -> None:
        for database in self._opened:
            database.close()


def engine_stores(engine: str, folder: Path, server: PostgreSQL) -> Iterator[Stores]:
    made = Stores(engine, folder, server)
    yield made
    made.close()


def at_once(work: Callable[[int], object], threads: int) -> list[object]:
    """Run `work(0)`, `work(1)` … in as many threads, all let go together; their results."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    barrier = Barrier(threads)

    def one(number: int) -> object:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(threads)))
