"""Copies of the day store that an upgrade keeps: consistent ones of a file in use, and the way back to one.

They hold words of chats, so `hmem forget` removes them (`Database.scrub`), as it removes the copies made before migrations.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from shared.system.faults import crash_point
from shared.system.files import atomic_writer, fsync_dir, safe_name
from shared.system.keys import sealing

#: Below HMEM_STATE_DIR: one directory for each upgrade. All files there that hold words begin with the second name.
UPGRADES, WORDS = "upgrades", "day-store"
COPY, AFTER, READY = f"{WORDS}.sqlite", f"{WORDS}-after.sqlite", f"{WORDS}-ready.sqlite"
_BUSY_SECONDS = 5.0
#: Columns of a memory → their names in a file for `hmem memory import`.
_FIELDS = {
    "text": "text", "type": "type", "created": "created", "deadline": "deadline", "completed_at": "completed_at", "priority": "priority",
    "importance": "importance", "category": "category", "reminded_at": "reminded",
}  # fmt: skip


def kept_words(state_dir: Path) -> list[Path]:
    """Every file of an upgrade that holds words: also the half-made ones of a killed upgrade (`.day-store….tmp`), with SQLite's files beside them."""
    base = state_dir / UPGRADES
    return sorted([*base.glob(f"*/{WORDS}*"), *base.glob(f"*/.{WORDS}*")])


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


def leave_out_removed(store: Path, after: Path) -> int:
    """Remove from `store` the memories that `after`, which followed from it, has no more; returns how many."""
    with closing(sqlite3.connect(store, timeout=_BUSY_SECONDS)) as connection, connection:
        connection.execute("PRAGMA secure_delete=ON")
        left = {number for (number,) in _rows(after, "SELECT memory_id FROM memories")}
        known = {number for (number,) in connection.execute("SELECT memory_id FROM memories")}
        gone = sorted(known - left)
        connection.executemany("DELETE FROM memories WHERE memory_id = ?", [(number,) for number in gone])
    return len(gone)


def write_memories_since(kept: Path, after: Path) -> dict[str, Path]:
    """Chat → file with its memories that are in `after` and not in `kept`, beside `kept`, for `hmem memory import`. They are plain, because the
    version before may know no encryption: remove them when they are imported."""
    known = {number for (number,) in _rows(kept, "SELECT memory_id FROM memories")}
    columns = ", ".join(_FIELDS)
    wanted = f"SELECT memory_id, chat_id, source_turn, {columns} FROM memories WHERE superseded_by IS NULL ORDER BY memory_id"  # noqa: S608
    chats: dict[str, list[bytes]] = {}
    for number, chat, sources, *values in _rows(after, wanted):
        if number not in known:
            record = {
                _FIELDS[column]: _opened(column, value)
                for column, value in zip(_FIELDS, values, strict=True)
                if value is not None
            }
            chats.setdefault(chat, []).append(orjson.dumps(record | {"source_turns": (sources or "").split()}))
    files = {chat: kept.with_name(f"{WORDS}-since-{safe_name(chat)}.jsonl") for chat in chats}
    for chat, path in files.items():
        with atomic_writer(path) as handle:
            handle.write(b"\n".join(chats[chat]) + b"\n")
    return files


def _opened(column: str, value: Any) -> Any:
    return sealing.unseal_text(value, f"memories.{column}") if isinstance(value, str) else value


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
