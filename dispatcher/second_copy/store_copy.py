"""The day store in the journal: base copies by SQLite's own backup, the changes since, and the way back.

Each transaction of the store raises its count of changes (store_changes.py) and writes the rows that it left under that count. So a store whose count
is below the journal's is older, and one whose changes are missing here gets a new base copy. Another store, with another id, is never compared: what
the journal has of the one before is set aside under a name of its own, as is a base copy that cannot be read. The owner removes these.
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
from shared.delivery.journal.files import COUNTS, DAMAGED, OTHER, aside_name, asides, base_name, bases
from shared.delivery.journal.state import JournalState, read_journal
from shared.system.faults import crash_point
from shared.system.files import fsync_dir, locked_file, make_dir
from shared.turns.records import Tombstone

log = structlog.get_logger()

_BUSY_SECONDS = 10.0
#: Held while a copy is made or used: dispatcher and `hmem forget` do both.
LOCK = "store.lock"


class BaseDamaged(sqlite3.DatabaseError):
    """The journal's copy of the day store cannot be read; its message is a sentence without its end."""


def version_of(path: Path) -> int:
    """The store's id and count of changes (shared/delivery/journal/files.py); -1 if there is no store."""
    if not path.exists():
        return -1
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as store:
        (number,), (count,) = (store.execute(f"PRAGMA {one}").fetchone() for one in ("application_id", "user_version"))
        return int(number & 0x7FFFFFFF) * COUNTS + int(count)


def same_store(one: int, other: int) -> bool:
    """Whether two versions may be of one store: one without an id is from before stores had one."""
    return len({one // COUNTS, other // COUNTS} - {0}) <= 1


def lacks(known: int, version: int) -> bool:
    """Whether a journal that can bring `known` back does not have this version."""
    return not same_store(known, version) or version % COUNTS > known % COUNTS


def is_older(store: Path, known: int) -> bool:
    """Whether the store is to be what the journal knows: it is gone, or older; or another one in which nothing was ever kept."""
    now = version_of(store)
    if now < 0 or known < 0:
        return known >= 0
    return now % COUNTS < known % COUNTS if same_store(now, known) else not has_words(store)


def has_words(path: Path) -> bool:
    """Whether there is a row of any chat."""
    with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as store:
        return any(store.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() for table in _tables(store))  # noqa: S608


def _tables(store: sqlite3.Connection) -> list[str]:
    """Those whose rows are of a chat."""
    columns = "sqlite_master AS one JOIN pragma_table_info(one.name) AS other"
    rows = store.execute(f"SELECT one.name FROM {columns} WHERE one.type = 'table' AND other.name = 'chat_id'")  # noqa: S608
    return [name for (name,) in rows]


def known_version(folder: Path, state: JournalState) -> int:
    """The newest version that the journal can bring back: of its base copy, and of all changes after it without a gap. -1 for none."""
    found = bases(folder)
    version = found[-1][0] if found else -1
    while version >= 0 and version + 1 in state.store_versions:
        version += 1
    return version


def take_base(store: Path, folder: Path) -> int:
    """Copy the store, which may be in use, and remove older copies of it; the copy's version."""
    with locked_file(folder / LOCK):
        return _take_base(store, folder)


def _take_base(store: Path, folder: Path) -> int:
    temporary = folder / ".store.tmp"
    version = _copy_whole(store, temporary)
    crash_point("journal:store-copied")
    for known, old in bases(folder):
        if not same_store(known, version):
            _set_aside(folder, known, old)
    target = folder / base_name(version)
    temporary.replace(target)
    fsync_dir(folder)
    for _, old in bases(folder):
        if old != target:
            old.unlink(missing_ok=True)
    return version


def _copy_whole(store: Path, temporary: Path) -> int:
    """A durable copy, in one file, of a store that may be in use; its version."""
    folder = temporary.parent
    for left in folder.glob(f"{temporary.name}*"):
        left.unlink()
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _copy(store, temporary)
        with closing(sqlite3.connect(temporary)) as copy:
            copy.execute("PRAGMA journal_mode=DELETE")  # one file
        os.fsync(descriptor)
        return version_of(temporary)
    finally:
        os.close(descriptor)


def put_store_back(folder: Path, state: JournalState, store: Path) -> int:
    """Make the store what the newest base copy and the changes after it say, in one transaction of SQLite; the new count. `state` is a whole one.

    BaseDamaged if that copy cannot be read: then it is set aside. Another store with words that was there is kept beside the copy.
    """
    with locked_file(folder / LOCK):
        return _put_store_back(folder, state, store)


def _put_store_back(folder: Path, state: JournalState, store: Path) -> int:
    version, base = bases(folder)[-1]
    make_dir(store.parent)
    temporary = store.with_name(f".{store.name}.put-back.tmp")
    try:
        reached = _restore(version, base, state, temporary)
        there = version_of(store)
        if there >= 0 and not same_store(there, version) and has_words(store):
            beside = folder / ".store-aside.tmp"
            _copy_whole(store, beside)
            beside.replace(folder / aside_name(OTHER, there))
            fsync_dir(folder)
        _copy(temporary, store)
    except BaseDamaged as error:
        kept = _rename_damaged(folder, version, base)
        raise BaseDamaged(
            f"the journal's copy of the day store is damaged ({error}), and was set aside as {kept}"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
    log.warning("the day store was put back from the journal", changes=reached - version)
    return reached % COUNTS


def _restore(version: int, base: Path, state: JournalState, temporary: Path) -> int:
    """A new file with what a base copy and the changes after it say; its version. BaseDamaged if the copy cannot be read."""
    temporary.unlink(missing_ok=True)
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        _copy(base, temporary)
        with closing(sqlite3.connect(temporary)) as copy, copy:
            if (found := copy.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":  # copying looks at nothing
                raise BaseDamaged(str(found).partition("\n")[0])
            for number, entries in whole_changes(state.store, version):
                for entry in entries:
                    for row in entry.data["rows"]:
                        _apply(copy, row)
                version = number
            copy.execute(f"PRAGMA user_version = {version % COUNTS}")
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(code, int) and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise BaseDamaged(str(error)) from error
        raise
    return version


def _set_aside(folder: Path, version: int, base: Path) -> None:
    """Keep what the journal has of another store than the one that is in use now, with its changes. It is as old as its base copy."""
    state, temporary, made_at = read_journal(folder), folder / ".store-aside.tmp", base.stat().st_mtime
    try:
        target = folder / aside_name(OTHER, _restore(version, base, state, temporary))
    except BaseDamaged:
        kept = _rename_damaged(folder, version, base)
    else:
        temporary.replace(target)
        os.utime(target, (made_at, made_at))
        fsync_dir(folder)
        base.unlink()
        kept = target.name
        forget_aside(folder, state.tombstones.values())
    log.error(
        "the day store is another one than before; what the journal had of that one is kept and not used", file=kept
    )


def _rename_damaged(folder: Path, version: int, base: Path) -> str:
    kept = base.rename(folder / aside_name(DAMAGED, version))
    fsync_dir(folder)
    return kept.name


def forget_aside(folder: Path, tombstones: Iterable[Tombstone]) -> None:
    """Of a chat that forgot something since, nothing stays in copies that were set aside; one that cannot be read goes."""
    stones = list(tombstones)
    for _, _, path in asides(folder):
        chats = sorted({one.chat_id for one in stones if one.created_at > path.stat().st_mtime})
        if not chats:
            continue
        try:
            with closing(sqlite3.connect(path, timeout=_BUSY_SECONDS)) as copy:
                copy.execute("PRAGMA secure_delete=ON")
                with copy:
                    for table in _tables(copy):
                        copy.executemany(f'DELETE FROM "{table}" WHERE chat_id = ?', [(one,) for one in chats])  # noqa: S608
                copy.execute("VACUUM")
            os.utime(path)
        except sqlite3.Error:
            log.error("a damaged copy of the day store was removed, because something was forgotten", file=path.name)
            path.unlink()


def copied(folder: Path) -> dict[int, int]:
    """Day store → the count of changes up to which a copy has them."""
    found = [version for version, _ in bases(folder)]
    found += [version for why, version, _ in asides(folder) if why == OTHER]
    return {version // COUNTS: version % COUNTS for version in sorted(found)}


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
