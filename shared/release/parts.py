"""Which files of an index in parts the next index reuses: small ones of one size are merged once there are FANOUT of them.

This is the tiered merging of log-structured stores and of Lucene (O'Neil et al., "The Log-Structured Merge-Tree", 1996): from LEAST_ROWS rows on
a row is written again once a level, so log_8(n / 512) times, and below that the small parts are, every seventh night; most nights write,
and send, what is new and nothing else. A part is never changed: it is in the next index too, as the same file, or it is not.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from shared.errors import ReleaseRefused, StorageError, without_words
from shared.system.files import make_dir

#: Parts of one level that become one of the next, and the rows below which all parts are of the lowest level.
FANOUT, LEAST_ROWS = 8, 4096
SUFFIX = ".sqlite"


@dataclass(frozen=True)
class Earlier:
    """A verified, unmodified index of an earlier night that a new one may reuse. Its files are never written to again.

    `held` are the chunks in it by chat, all of them still needed with the same vector. An index in parts has them in `parts` (file names;
    there may be other files, too); any other index is reused as a whole or not at all.
    """

    path: Path
    held: Mapping[str, AbstractSet[str]]
    parts: tuple[str, ...] = ()
    rest_only: bool = False  # the builder is given only what the parts do not hold; `held` is empty


def level(rows: int, least: int | None = None) -> int:
    """0 below `least`, or LEAST_ROWS; then one more each time it grows by FANOUT."""
    found = 0
    while rows >= (least or LEAST_ROWS):
        rows //= FANOUT
        found += 1
    return found


def absorbed(rows: Mapping[str, int], new: int) -> set[str]:
    """Of the parts with these numbers of rows, those that are merged with `new` rows into one; none if nothing is new."""
    gone = set[str]()
    size = new
    while new:
        same = {name for name, count in rows.items() if name not in gone and level(count) <= level(size)}
        if len(same) < FANOUT - 1:
            break
        gone |= same
        size += sum(rows[name] for name in same)
    return gone


def part_files(place: Path) -> list[Path]:
    """The parts in the order in which they were made; of an index that is one file, that one."""
    return [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}"), key=_made)


def _made(path: Path) -> tuple[int, int, str]:
    run, _, attempt = path.stem.partition("-")
    return int(run) if run.isdecimal() else 0, int(attempt) if attempt.isdecimal() else 0, path.name


def new_part(place: Path, run: int) -> Path:
    """A name for the part that this run writes: `<run>.sqlite`, unless a reused part has that name (the night was built twice)."""
    path, attempt = place / f"{run}{SUFFIX}", 1
    while path.exists():
        attempt += 1
        path = place / f"{run}-{attempt}{SUFFIX}"
    return path


def begin(place: Path, earlier: Earlier | None) -> None:
    """The directory of a new index, with the parts of the earlier one in it."""
    make_dir(place)
    if earlier:
        for name in earlier.parts:
            take_over(earlier.path / name, place)


def take_over(part: Path, place: Path) -> None:
    """Link the file into the new index; neither is written to again."""
    try:
        os.link(part, place / part.name)
    except OSError as error:
        raise StorageError(
            f"{part} could not be linked into {place}: {error}. Check the disk, then run the night again."
        ) from error


# ── Checks of closed database files that leave no trace: through an immutable connection, or on a private copy.


#: Files that SQLite leaves next to a database that was not closed; an immutable reader would ignore their contents.
LEFTOVERS = ("-wal", "-shm", "-journal")


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
