"""Consistent copies of a day store that is in use, and the way back to one."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from shared.system.faults import crash_point
from shared.system.files import fsync_dir

_BUSY_SECONDS = 5.0


def back_up(source: Path, target: Path) -> None:
    """A consistent copy of an SQLite file that may be in use; it appears under its name whole and durable, or not at all."""
    temporary = target.with_name(f".{target.name}.tmp")
    for left in target.parent.glob(f"{temporary.name}*"):  # of a copy that a kill cut short, and its journal
        left.unlink()
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _copy(source, temporary)
        with closing(sqlite3.connect(temporary)) as copy:  # one file, also while it is read
            copy.execute("PRAGMA journal_mode=DELETE")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    crash_point("store:copied")
    temporary.replace(target)
    fsync_dir(target.parent)


def put_back(kept: Path, store: Path) -> None:
    """Make `store` what `kept` is, in one transaction of SQLite, so that programs which have it open see one or the other.

    Its count of changes goes on from that of the store before: the journal must not take what was put back on purpose for an older copy.
    """
    before = _count(store) if store.exists() else 0
    _copy(kept, store)
    with closing(sqlite3.connect(store, timeout=_BUSY_SECONDS)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {max(before, _count(kept)) + 1}")


def _count(path: Path) -> int:
    return int(_rows(path, "PRAGMA user_version")[0][0])


def _rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as connection:
        return connection.execute(query).fetchall()


def _copy(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(source, timeout=_BUSY_SECONDS)) as read,
        closing(sqlite3.connect(target, timeout=_BUSY_SECONDS)) as written,
    ):
        read.backup(written)
