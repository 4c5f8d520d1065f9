"""Checks of closed database files that leave no trace: through an immutable connection, or on a private copy."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from shared.errors import ReleaseRefused, StorageError, without_words

#: Files that SQLite leaves next to a database that was not closed; an immutable reader would ignore their contents.
LEFTOVERS = ("-wal", "-shm", "-journal")
#: Nights within which the bytes of each file that is kept are read again: a failing disk leaves sizes and times as they are.
SCRUB_NIGHTS = 7


def is_due(name: str, run: int) -> bool:
    """Whether it is the turn of this file to be read again by the night of this run."""
    return (zlib.crc32(name.encode()) + run) % SCRUB_NIGHTS == 0


def open_closed(path: Path) -> sqlite3.Connection:
    """A reader of a database that no process writes to: takes no lock, leaves nothing behind, works on a read-only mount."""
    return sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def check_database(path: Path) -> None:
    """`PRAGMA integrity_check`; StorageError if the file is damaged."""
    with damage_named(path), closing(open_closed(path)) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Raise SQLite's errors about a file as a StorageError."""
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(
            f"{path} is damaged ({without_words(error)}). Check the disk and the memory of this host, then run the night again."
        ) from error


def refuse_leftovers(folder: Path) -> None:
    """ReleaseRefused if a database below `folder` was not closed."""
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(LEFTOVERS):
            raise ReleaseRefused(
                f"{path} was left behind, so its database was not closed and may be incomplete. Run the night again."
            )


def private_copy(source: Path, target: Path) -> None:
    """Copy a directory's contents to a writable copy; StorageError if that fails (shutil's error names no cause)."""
    try:
        shutil.copytree(source, target, copy_function=shutil.copyfile, dirs_exist_ok=True)
    except shutil.Error as error:
        _, _, why = error.args[0][0]
        raise StorageError(
            f"{source} could not be copied to {target}: {why}. Fix that, then run the command again."
        ) from error
