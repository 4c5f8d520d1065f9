"""`HMEM_NIGHT_DIR/media.sqlite`: which files of messages the archive has, so that a night without new ones neither lists nor reads them all.

It follows from the folders and may be deleted at any time: then it is made anew, and every file is read in that night. Nothing is deleted because
of what it says. Otherwise new files are read when they come, and each file again within a week, here and in the mirror.
`gone`: files that were forgotten here and are still to be removed from the mirror.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from nightly.archive.catalog import Catalog
from nightly.archive.media.places import folder_of, is_there, listed, task_of
from shared.errors import StorageError, without_words
from shared.system.faults import crash_point
from shared.system.files import fsync_dir

MEDIA_LIST = "media.sqlite"
LAYOUT = 1
_DAY_SECONDS = 86_400.0
_SCHEMA = """
CREATE TABLE files (path TEXT PRIMARY KEY, size INTEGER NOT NULL, read_at REAL NOT NULL, mirrored_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX files_by_read ON files (read_at);
CREATE INDEX files_by_mirrored ON files (mirrored_at);
CREATE TABLE gone (path TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE forgotten (tombstone_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""


@contextmanager
def open_index(night_dir: Path) -> Iterator[MediaIndex]:
    """The list, made anew where there is none that can be read; StorageError if it cannot be written."""
    path = night_dir / MEDIA_LIST
    try:
        with closing(_opened(path)) as connection:
            yield MediaIndex(connection, night_dir / "archive")
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            path.unlink(missing_ok=True)
        raise StorageError(
            f"{path}, the list of the archive's files, cannot be used ({without_words(error)}). Check the disk, then run the night again; "
            "if it is damaged, it is made anew."
        ) from error


def _opened(path: Path) -> sqlite3.Connection:
    if path.exists():
        with suppress(sqlite3.Error):
            connection = _connect(path)
            if connection.execute("PRAGMA user_version").fetchone() == (LAYOUT,):
                connection.execute("SELECT count(*) FROM gone").fetchone()
                return connection
            connection.close()
        path.unlink()
    for left in (path.with_name(f"{path.name}-journal"),):
        left.unlink(missing_ok=True)
    connection = _connect(path)
    connection.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, _SCHEMA.split(";")):
        connection.execute(statement)
    archive_dir = path.parent / "archive"
    rows = ((name, (archive_dir / name).stat().st_size) for name in listed(archive_dir) if is_there(archive_dir, name))
    connection.executemany("INSERT INTO files VALUES (?,?,0,0)", rows)
    connection.execute("INSERT INTO about VALUES ('anew', 1)")
    connection.execute(f"PRAGMA user_version = {LAYOUT}")
    connection.execute("COMMIT")
    path.chmod(0o600)
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


class MediaIndex:
    """The night's own, under its lock."""

    def __init__(self, connection: sqlite3.Connection, archive_dir: Path) -> None:
        self._connection, self.archive_dir = connection, archive_dir

    @property
    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM files").fetchone()[0])

    def add(self, path: str, size: int) -> None:
        """A file that is there, and was read just now."""
        sql = "INSERT INTO files VALUES (?,?,?,0) ON CONFLICT (path) DO UPDATE SET read_at = excluded.read_at"
        self._connection.execute(sql, (path, size, time.time()))

    def was_read(self, path: str) -> None:
        self._connection.execute("UPDATE files SET read_at = ? WHERE path = ?", (time.time(), path))

    def due(self, column: str, days: float) -> list[str]:
        """The files whose turn it is: the oldest up to a night's share, and each that would be too old at the next night. `column`: read_at,
        or mirrored_at."""
        now = time.time()
        row = self._connection.execute("SELECT value FROM about WHERE name = ?", (column,)).fetchone()
        passed = max(0.0, now - row[0]) / _DAY_SECONDS if row else 0.0
        self._connection.execute("INSERT OR REPLACE INTO about VALUES (?,?)", (column, now))
        (total,) = self._connection.execute("SELECT total(size) FROM files").fetchone()
        share, due = min(1.0, passed / days) * total, list[str]()
        order = f"SELECT path, size, {column} FROM files WHERE {column} <= ? ORDER BY {column}"  # noqa: S608 - one of two
        for path, size, at in self._connection.execute(order, (now,)):
            if share <= 0 and (now - at) / _DAY_SECONDS < days - passed:
                break
            due.append(path)
            share -= size
        later = f"SELECT path FROM files WHERE {column} > ?"  # noqa: S608 - of a clock that was ahead
        return [*due, *(path for (path,) in self._connection.execute(later, (now,)))]

    # Forgetting

    def unapplied(self, tombstones: Collection[str]) -> list[str]:
        """Of these tombstones, those whose files were not removed yet."""
        known = {name for (name,) in self._connection.execute("SELECT tombstone_id FROM forgotten")}
        return [name for name in tombstones if name not in known]

    def applied(self, tombstones: Collection[str]) -> None:
        rows = ((name,) for name in tombstones)
        self._connection.executemany("INSERT OR IGNORE INTO forgotten VALUES (?)", rows)

    def forget(self, paths: Collection[str]) -> None:
        """Before they are removed here: they are to be removed from the mirror, too."""
        self._connection.execute("BEGIN IMMEDIATE")
        for path in paths:
            self._connection.execute("INSERT OR IGNORE INTO gone VALUES (?)", (path,))
            self._connection.execute("DELETE FROM files WHERE path = ?", (path,))
        self._connection.execute("COMMIT")

    @property
    def gone(self) -> list[str]:
        return [path for (path,) in self._connection.execute("SELECT path FROM gone ORDER BY path")]

    def gone_there(self, paths: Collection[str]) -> None:
        self._connection.executemany("DELETE FROM gone WHERE path = ?", ((path,) for path in paths))

    # The mirror

    def use_mirror(self, place: str) -> bool:
        """Whether nothing is known of this mirror: it is another one, or the list was made anew."""
        known = dict(self._connection.execute("SELECT name, value FROM about WHERE name IN ('mirror', 'anew')"))
        if known.get("mirror") == place and "anew" not in known:
            return False
        self._connection.execute("UPDATE files SET mirrored_at = 0")
        return True

    def knows_mirror(self, place: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO about VALUES ('mirror', ?)", (place,))
        self._connection.execute("DELETE FROM about WHERE name = 'anew'")

    @property
    def unmirrored(self) -> list[str]:
        return [path for (path,) in self._connection.execute("SELECT path FROM files WHERE mirrored_at = 0")]

    def mirrored(self, paths: Collection[str]) -> None:
        now = time.time()
        rows = ((now, path) for path in paths)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("UPDATE files SET mirrored_at = ? WHERE path = ?", rows)
        self._connection.execute("COMMIT")


# ── Forgetting of files: those of the turns that a tombstone erases are removed, here at once, and from the mirror when it is brought up to date.
#
# Only the folders of the chats of new tombstones are listed. A file stays if a version of its turn is left in the archive.


def erase(catalog: Catalog, index: MediaIndex) -> int:
    """How many were removed. After it the records are erased: `catalog` shows what is left. A crash repeats it."""
    erasing = {name: one.chat_id for name, one in catalog.tombstones.items() if one.erase}
    new = index.unapplied(erasing)
    folders = sorted({folder_of(erasing[name]) for name in new})
    paths = [path for one in folders for path in listed(index.archive_dir, one) if not has_turn(catalog, path)]
    index.forget(paths)
    crash_point("erase:media-noted")
    for path in paths:
        (index.archive_dir / path).unlink(missing_ok=True)
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        fsync_dir(index.archive_dir / folder)
    crash_point("erase:media-removed")
    index.applied(new)
    return len(paths)


def has_turn(catalog: Catalog, path: str) -> bool:
    """Whether a version of the turn that a file came with is in the archive."""
    turn_id = f"{task_of(path)}:user"
    return catalog.has_version(turn_id) and _is_in_chat(path, catalog.owner_of(turn_id))


def is_forgotten(catalog: Catalog, path: str) -> bool:
    """Whether a file is that of a turn of which only what remains after erasing is left."""
    turn_id = f"{task_of(path)}:user"
    return _is_in_chat(path, catalog.erased_in(turn_id)) and not catalog.has_version(turn_id)


def _is_in_chat(path: str, chat_id: str | None) -> bool:
    return chat_id is not None and path.startswith(f"{folder_of(chat_id)}/")
