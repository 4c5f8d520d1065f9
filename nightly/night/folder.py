"""A night is a folder: `nights/<run>/`, one committed output folder a step.

    nights/<run>/state.json        run, parent release, start
    nights/<run>/<step>/           a step's output with result.json; it exists only when the step is done
    nights/<run>/<step>.tmp/       a step in progress; discarded after a crash

Runs are numbered by a counter, never by a clock (`new_run` in nightly/lifecycle.py). Who may write is decided in nightly/night/lease.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from redis import Redis

from nightly.night.lease import Lease
from nightly.night.progress import Reporter
from nightly.night.target import open_target
from shared.config.settings import Settings
from shared.system.faults import crash_point
from shared.system.files import commit_dir, fresh_dir, remove_tree, write_atomic

RESULT = "result.json"
#: In the night's directory: a cache that may be deleted at any time; the mirror's copies of files while they are compared or repaired.
CACHE, FETCHED, REPAIRING = "cache.sqlite", "mirror.tmp", "repair.tmp"
STATE = "state.json"
DONE = "done.json"


class Night:
    """One run: its folder, its settings, and the connections that its steps need."""

    def __init__(
        self, settings: Settings, folder: Path, client: Redis, lease: Lease, reporter: Reporter, *, accept: bool = False
    ) -> None:
        self.settings, self.folder, self.redis, self.lease, self.report = settings, folder, client, lease, reporter
        self.target = open_target(settings)
        self.accept = accept  # the owner accepts a release that finds far less than the current one

    @cached_property
    def state(self) -> dict[str, Any]:
        record: dict[str, Any] = orjson.loads((self.folder / STATE).read_bytes())
        return record

    @property
    def run(self) -> int:
        return int(self.folder.name)

    @property
    def parent(self) -> int | None:
        """Run of the release that was current when this night began."""
        parent = self.state["parent"]
        return None if parent is None else int(parent)

    @property
    def rebuild(self) -> bool:
        """Whether to build the release even if the current one already contains the whole archive (a backfill)."""
        return bool(self.state["rebuild"])

    @property
    def archive_dir(self) -> Path:
        return self.settings.hmem_night_dir / "archive"

    def output(self, step: str) -> Path:
        """The committed output folder of a step."""
        return self.folder / step

    def result(self, step: str) -> dict[str, Any]:
        record: dict[str, Any] = orjson.loads((self.output(step) / RESULT).read_bytes())
        return record

    def is_done(self, step: str) -> bool:
        return self.output(step).is_dir()

    def begin(self, step: str) -> Path:
        """An empty folder for a step's output."""
        return fresh_dir(self.folder / f"{step}.tmp")

    def commit(self, step: str, result: dict[str, Any]) -> None:
        """Mark the step as done: its folder gets its final name."""
        temporary = self.folder / f"{step}.tmp"
        write_atomic(temporary / RESULT, orjson.dumps(result, option=orjson.OPT_INDENT_2))
        crash_point(f"{step}:before-commit")
        commit_dir(temporary, self.output(step))
        crash_point(f"{step}:after-commit")


def close_night(folder: Path, summary: dict[str, Any]) -> None:
    """It is finished, or abandoned."""
    write_atomic(folder / DONE, orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    drop_bulk(folder)


def drop_bulk(folder: Path) -> None:
    """Of a closed night, keep the steps' results and remove the rest: the archive and the release contain it."""
    for path in list(folder.iterdir()):
        if path.suffix == ".tmp":
            remove_tree(path)
        elif path.is_dir():
            for entry in list(path.iterdir()):
                if entry.is_dir():
                    remove_tree(entry)
                elif entry.name != RESULT:
                    entry.unlink()


def nights_dir(settings: Settings) -> Path:
    return settings.hmem_night_dir / "nights"


def imports_dir(settings: Settings) -> Path:
    """Imports that a backfill has read and no night has archived yet (nightly/imports/staging.py)."""
    return settings.hmem_night_dir / "imports"


def night_runs(settings: Settings) -> list[int]:
    """Runs that have a folder, ascending."""
    directory = nights_dir(settings)
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit()) if directory.is_dir() else []


def step_result(settings: Settings, run: int, step: str) -> dict[str, Any] | None:
    """The result of a step of a night; None if the step is not done."""
    return read_record(nights_dir(settings) / str(run) / step / RESULT)


def last_result(night: Night, step: str) -> dict[str, Any]:
    """The result of this step in the night before; {} if there is none."""
    earlier = [run for run in night_runs(night.settings) if run < night.run]
    return (step_result(night.settings, earlier[-1], step) if earlier else None) or {}


def read_record(path: Path) -> dict[str, Any] | None:
    """A JSON file of a night; None if it is not there, or damaged: one damaged night must not hide the others."""
    try:
        record: dict[str, Any] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return record


def unfinished_run(settings: Settings) -> int | None:
    """The newest night that was begun and not finished."""
    runs = night_runs(settings)
    if not runs or (nights_dir(settings) / str(runs[-1]) / DONE).exists():
        return None
    return runs[-1]


def is_damage(error: sqlite3.Error) -> bool:
    """Whether a file is no database or a damaged one, rather than locked, or the disk full."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)


#: Vectors by (embedding, text).
_CACHED = (
    "CREATE TABLE IF NOT EXISTS embeddings (id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "CREATE TABLE IF NOT EXISTS vectors (embedding INTEGER, text_sha256 BLOB, vector BLOB, PRIMARY KEY (embedding, text_sha256))",
)


def open_cache(path: Path, say: Callable[[str], None]) -> sqlite3.Connection:
    """`cache.sqlite`. A damaged file is removed, and said to be."""
    with damaged_removed(path) as damage:
        return _opened_cache(path)
    say(f"  {path} was damaged ({damage[0]}). It begins anew, and all texts are embedded again.")
    return _opened_cache(path)


def _opened_cache(path: Path) -> sqlite3.Connection:
    """A page of a new file holds ten vectors, which take 1,600 bytes each. Of what is deleted no byte is left."""
    connection = sqlite3.connect(path)
    for pragma in ("page_size = 16384", "journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON"):
        connection.execute(f"PRAGMA {pragma}")
    for statement in _CACHED:
        connection.execute(statement)
    return connection


@contextmanager
def damaged_removed(path: Path) -> Iterator[list[sqlite3.DatabaseError]]:
    """Remove `cache.sqlite`, which is filled again, if it is found to be damaged; the error is in the list then."""
    found: list[sqlite3.DatabaseError] = []
    try:
        yield found
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        found.append(error)


def scratch_database(path: Path | None, schema: str, cache_kib: int = 8192) -> sqlite3.Connection:
    """A new one, in a transaction that nobody ends: of no use after a crash, and gone with its folder. None: SQLite gives it no name that stays."""
    connection = sqlite3.connect(path or "", isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{cache_kib}"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(schema)
    connection.execute("BEGIN")  # a statement each would be a write each
    return connection
