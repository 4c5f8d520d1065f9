"""The day store in the journal: base copies by SQLite's own backup, the changes since, and the way back.

Each transaction of the store raises its count of changes (`PRAGMA user_version`, dispatcher/memory/store/changes.py) and writes the rows that it
left under that count. So a store whose count is below the journal's is older, and one whose changes are missing here gets a new base copy.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import structlog

from dispatcher.second_copy.store_changes import DERIVED
from shared.delivery.journal.entries import JournalEntry
from shared.delivery.journal.files import base_name, bases
from shared.delivery.journal.state import JournalState
from shared.system.faults import crash_point
from shared.system.files import fsync_dir, locked_file, make_dir

log = structlog.get_logger()

_BUSY_SECONDS = 10.0
#: Held while a copy is made or used: dispatcher and `hmem forget` do both.
LOCK = "store.lock"


def version_of(path: Path) -> int:
    """The store's count of changes; -1 if there is no store."""
    if not path.exists():
        return -1
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as store:
        return int(store.execute("PRAGMA user_version").fetchone()[0])


def known_version(folder: Path, state: JournalState) -> int:
    """The newest count that the journal can bring back: of its base copy, and of all changes after it without a gap. -1 for none."""
    found = bases(folder)
    version = found[-1][0] if found else -1
    while version >= 0 and version + 1 in state.store_versions:
        version += 1
    return version


def take_base(store: Path, folder: Path) -> int:
    """Copy the store, which may be in use, and remove older copies; the copy's count of changes."""
    with locked_file(folder / LOCK):
        return _take_base(store, folder)


def _take_base(store: Path, folder: Path) -> int:
    temporary = folder / ".store.tmp"
    for left in folder.glob(f"{temporary.name}*"):
        left.unlink()
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _copy(store, temporary)
        with closing(sqlite3.connect(temporary)) as copy:
            copy.execute("PRAGMA journal_mode=DELETE")  # one file
            version = int(copy.execute("PRAGMA user_version").fetchone()[0])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    crash_point("journal:store-copied")
    target = folder / base_name(version)
    temporary.replace(target)
    fsync_dir(folder)
    for _, old in bases(folder):
        if old != target:
            old.unlink(missing_ok=True)
    return version


def put_store_back(folder: Path, state: JournalState, store: Path) -> int:
    """Make the store what the newest base copy and the changes after it say, in one transaction of SQLite; the new count. `state` is a whole one."""
    with locked_file(folder / LOCK):
        return _put_store_back(folder, state, store)


def _put_store_back(folder: Path, state: JournalState, store: Path) -> int:
    version, base = bases(folder)[-1]
    changes = whole_changes(state.store, version)
    make_dir(store.parent)
    temporary = store.with_name(f".{store.name}.put-back.tmp")
    temporary.unlink(missing_ok=True)
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        _copy(base, temporary)
        with closing(sqlite3.connect(temporary)) as copy, copy:
            for number, entries in changes:
                for entry in entries:
                    for row in entry.data["rows"]:
                        _apply(copy, row)
                version = number
            copy.execute(f"PRAGMA user_version = {int(version)}")
        _copy(temporary, store)
    finally:
        with suppress(OSError):
            temporary.unlink()
    log.warning("the day store was put back from the journal", changes=len(changes))
    return version


def whole_changes(entries: Iterable[JournalEntry], version: int) -> list[tuple[int, list[JournalEntry]]]:
    """(count, entries) of each transaction after `version`, in order and without a gap; one that is here in part ends them."""
    found: dict[int, dict[int, JournalEntry]] = {}
    for entry in entries:
        found.setdefault(int(entry.data["version"]), {})[int(entry.data["part"])] = entry
    ordered = []
    while (parts := found.get(version + 1)) and len(parts) == next(iter(parts.values())).data["parts"]:
        version += 1
        ordered.append((version, [parts[at] for at in sorted(parts)]))
    return ordered


def _apply(copy: sqlite3.Connection, change: dict[str, Any]) -> None:
    """One row as it was after its transaction; columns that this table does not have are left out."""
    table, name, row = str(change["table"]), change["name"], change["row"]
    columns = {str(one[1]) for one in copy.execute(f'PRAGMA table_info("{table}")')}
    if not columns or not set(name) <= columns:
        return
    where = " AND ".join(f'"{column}" IS ?' for column in name)
    if row is None:
        copy.execute(f'DELETE FROM "{table}" WHERE {where}', list(name.values()))  # noqa: S608 - columns of the table itself
        return
    known = {column: value for column, value in row.items() if column in columns}
    known |= dict.fromkeys(column for column in DERIVED if column in columns)  # of the new text there is no vector yet
    listed, marks = ", ".join(f'"{one}"' for one in known), ", ".join("?" * len(known))
    excluded = ", ".join(f'"{one}" = excluded."{one}"' for one in known)
    conflict = ", ".join(f'"{one}"' for one in name)
    copy.execute(
        f'INSERT INTO "{table}" ({listed}) VALUES ({marks}) ON CONFLICT ({conflict}) DO UPDATE SET {excluded}',  # noqa: S608
        list(known.values()),
    )


def _copy(source: Path, target: Path) -> None:
    existing = f"{source.as_uri()}?mode=rw"  # a source that has gone must not be made, and copied as an empty one
    with (
        closing(sqlite3.connect(existing, uri=True, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(target, timeout=_BUSY_SECONDS)) as written,
    ):
        read.backup(written)
