"""The catalog: what a night must know of the archive, in a database, so that it reads the new segment and not all of them.

    HMEM_NIGHT_DIR/catalog.sqlite    each segment with its size, times and hash; record -> segment; the last version of each turn and where it
                                     stands; what was erased; tombstones; for each chat its number of turns and a digest of them. No words.
    HMEM_NIGHT_DIR/catalog.sha256    the hash of that file

It follows from the segments and may be deleted at any time. A segment whose size and times are those that the catalog recorded counts as unchanged;
in turns each is hashed again, all of them within SCRUB_DAYS. If the catalog is damaged, is of another archive, or does not follow from the
segments as they are now, it is made anew from them. Nothing is deleted because of what it says: flush reads the segments themselves.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson

from nightly.archive.segments import RawRecord, is_texts, parse_turn, segment_content, segment_lines
from nightly.night.folder import Night
from shared.errors import StorageError
from shared.system.archive_folder import archive_files
from shared.system.files import sha256_bytes, sha256_file, write_atomic
from shared.turns.records import RecordRefused, Tombstone, turn_key

CATALOG, CHECKSUM = "catalog.sqlite", "catalog.sha256"
#: Raise it when the tables change: then the catalog is made anew.
LAYOUT = 1
_DAY_SECONDS = 86_400.0
_SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value REAL) WITHOUT ROWID;
CREATE TABLE segments (
  segment INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, run INTEGER NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
  changed INTEGER NOT NULL, sha256 TEXT NOT NULL, original TEXT, read_at REAL NOT NULL
);
CREATE TABLE records (sha256 BLOB PRIMARY KEY, segment INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE turns (
  turn_id TEXT PRIMARY KEY, chat_id TEXT NOT NULL, said_at REAL NOT NULL, sha256 BLOB NOT NULL, segment INTEGER NOT NULL,
  start INTEGER NOT NULL, length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX turns_by_chat ON turns (chat_id);
CREATE TABLE erased (turn_id TEXT PRIMARY KEY, chat_id TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX erased_by_chat ON erased (chat_id);
CREATE TABLE tombstones (tombstone_id TEXT PRIMARY KEY, run INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE chats (chat_id TEXT PRIMARY KEY, turns INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID;
"""

#: Size, modification and change time in nanoseconds.
_Stat = tuple[int, int, int]
#: Catalogs as this process has proven or written them: they need not be hashed again.
_proven: dict[Path, _Stat] = {}


class _Outdated(Exception):
    """The catalog does not follow from the segments as they are now."""


@contextmanager
def open_catalog(night: Night, *, before: int | None = None, scrub: bool = False) -> Iterator[Catalog]:
    """The catalog of the archive as it is now, of runs below `before`. `scrub`: read those segments again whose turn it is; ArchiveDamaged."""
    days = night.settings.scrub_days if scrub else None
    with closing(Catalog(night.settings.hmem_night_dir, night.report.say)) as catalog:
        catalog.refresh(before=before, scrub_days=days)
        yield catalog


def drop_catalog(night_dir: Path) -> None:
    """Delete the catalog; the next night makes it anew."""
    for name in (CATALOG, CHECKSUM):
        (night_dir / name).unlink(missing_ok=True)


class Catalog:
    """One reader and writer: the night, which has the lock of HMEM_NIGHT_DIR."""

    def __init__(self, night_dir: Path, say: Callable[[str], None]) -> None:
        self._night_dir, self._directory, self._say = night_dir, night_dir / "archive", say
        self._path = night_dir / CATALOG
        self._connection = self._opened()

    def close(self) -> None:
        self._connection.close()

    @property
    def segments(self) -> dict[str, str]:
        """Name → sha256 of each file of the archive, in order of the runs."""
        sql = "SELECT name, sha256 FROM segments ORDER BY run, name"
        return dict(self._connection.execute(sql))

    @property
    def originals(self) -> dict[str, str]:
        """Name of a rewritten segment → sha256 of the original file."""
        return dict(self._connection.execute("SELECT name, original FROM segments WHERE original IS NOT NULL"))

    @property
    def tombstones(self) -> dict[str, Tombstone]:
        """By id, in order of the runs that archived them."""
        rows = self._connection.execute("SELECT tombstone_id, record FROM tombstones ORDER BY run, tombstone_id")
        return {name: Tombstone.parse(record) for name, record in rows}

    @property
    def tombstone_runs(self) -> dict[str, int]:
        """Tombstone id → run that archived it first."""
        return dict(self._connection.execute("SELECT tombstone_id, run FROM tombstones"))

    def owner_of(self, turn_id: str) -> str | None:
        """The chat of a turn that is archived or was erased."""
        row = self._one("SELECT chat_id FROM turns WHERE turn_id = ?", turn_id)
        row = row or self._one("SELECT chat_id FROM erased WHERE turn_id = ?", turn_id)
        return row[0] if row else None

    def last_version(self, turn_id: str) -> str | None:
        """The hash of the record that is recalled for this turn."""
        row = self._one("SELECT sha256 FROM turns WHERE turn_id = ?", turn_id)
        return _text(row[0]) if row else None

    def segment_of(self, sha256: str) -> str | None:
        """The newest segment that has this record, or what remains of it."""
        row = self._one(
            "SELECT name FROM records JOIN segments USING (segment) WHERE records.sha256 = ?", _blob(sha256)
        )
        return row[0] if row else None

    def turns_per_chat(self) -> dict[str, int]:
        """Number of turns by chat, erased ones included."""
        return dict(self._connection.execute("SELECT chat_id, turns FROM chats WHERE turns > 0"))

    def forgotten_per_chat(self) -> dict[str, int]:
        """Number of turns by chat that a tombstone covers or has erased."""
        found: dict[str, int] = {}
        for chat_id, tombstones in self._tombstones_by_chat().items():
            rows = self._connection.execute("SELECT turn_id, said_at FROM turns WHERE chat_id = ?", (chat_id,))
            found[chat_id] = sum(any(one.reaches(turn_id, said_at) for one in tombstones) for turn_id, said_at in rows)
        for chat_id, gone in self._connection.execute(f"SELECT chat_id, count(*) {_GONE} GROUP BY chat_id"):
            found[chat_id] = found.get(chat_id, 0) + gone
        return {chat_id: count for chat_id, count in found.items() if count}

    def refresh(self, *, before: int | None = None, scrub_days: float | None = None) -> None:
        """Bring the catalog up to date with the archive; ArchiveDamaged names a segment that fails."""
        try:
            try:
                self._update(before, scrub_days)
            except _Outdated as why:
                self._make_anew(str(why), before)
            except sqlite3.DatabaseError as error:
                self._make_anew(f"it cannot be read ({error})", before)
        except sqlite3.Error as error:
            raise StorageError(
                f"The catalog {self._path} cannot be written ({error}). Make room or check the disk, then run the night again."
            ) from error

    def _opened(self) -> sqlite3.Connection:
        """The catalog if it is as it was left, or an empty one."""
        if self._path.exists() and not self._is_as_it_was():
            self._say("  The archive's catalog was changed or is incomplete. It is made anew from the segments.")
            drop_catalog(self._night_dir)
        connection = sqlite3.connect(self._path, isolation_level=None)
        connection.execute("PRAGMA cache_size = -65536")
        connection.execute("PRAGMA journal_mode = MEMORY")  # what a crash leaves does not match the checksum
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    def _is_as_it_was(self) -> bool:
        try:
            if _proven.get(self._path) == _stat(self._path):
                return True
            return (self._night_dir / CHECKSUM).read_text(encoding="ascii").strip() == sha256_file(self._path)
        except (OSError, ValueError):
            return False

    def _update(self, before: int | None, scrub_days: float | None) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            changed = self._follow(before, scrub_days)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        if changed:
            write_atomic(self._night_dir / CHECKSUM, sha256_file(self._path).encode() + b"\n")
        _proven[self._path] = _stat(self._path)

    def _make_anew(self, why: str, before: int | None) -> None:
        self._say(f"  The archive's catalog is made anew from the segments: {why}.")
        self._connection.close()
        drop_catalog(self._night_dir)
        self._connection = self._opened()
        self._update(before, None)

    def _follow(self, before: int | None, scrub_days: float | None) -> bool:
        """Make the tables follow from the segments; whether anything changed. _Outdated where that takes a new catalog."""
        (layout,) = self._connection.execute("PRAGMA user_version").fetchone()
        if layout == 0:
            for statement in filter(str.strip, _SCHEMA.split(";")):
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {LAYOUT}")
        elif layout != LAYOUT:
            raise _Outdated("another version of the program wrote it")
        wanted = [(run, name) for run, name in archive_files(self._directory) if _precedes(run, name, before)]
        known: dict[str, _Stat] = {
            name: (size, modified, changed)
            for name, size, modified, changed in self._connection.execute(
                "SELECT name, size, modified, changed FROM segments"
            )
        }
        new = self._new_segments(wanted, known)
        again = {name for name, stat in known.items() if _stat(self._directory / name) != stat}
        due = self._due(scrub_days) if scrub_days else set()
        for name in sorted(again | due):
            self._read_again(name)
        chats = set[str]()
        for run, name in new:
            self._add(run, name, chats)
        if chats:
            self._count(chats)
        return bool(layout == 0 or new or again or scrub_days)

    def _new_segments(self, wanted: list[tuple[int, str]], known: Iterable[str]) -> list[tuple[int, str]]:
        if gone := set(known) - {name for _, name in wanted}:
            raise _Outdated(f"it has {min(gone)}, which is not in the archive or belongs to this night")
        new = [(run, name) for run, name in wanted if name not in known]
        (last,) = self._connection.execute("SELECT max(run) FROM segments WHERE name LIKE 'seg-%'").fetchone()
        if early := [name for run, name in new if not is_texts(name) and run < (last or 0)]:
            raise _Outdated(f"{early[0]} was added to the archive later than newer segments")
        return new

    def _due(self, days: float) -> set[str]:
        """The segments that are read again tonight: the oldest up to a night's share, and each that would be too old at the next night."""
        now, due = time.time(), set[str]()
        row = self._one("SELECT value FROM about WHERE name = ?", "scrubbed_at")
        passed = max(0.0, now - row[0]) / _DAY_SECONDS if row else 0.0
        segments = self._connection.execute("SELECT name, size, read_at FROM segments ORDER BY read_at").fetchall()
        share = min(1.0, passed / days) * sum(size for _, size, _ in segments)
        for name, size, read_at in segments:
            if share > 0 or not 0 <= (now - read_at) / _DAY_SECONDS < days - passed:
                due.add(name)
                share -= size
        self._connection.execute("INSERT OR REPLACE INTO about VALUES ('scrubbed_at', ?)", (now,))
        return due

    def _read_again(self, name: str) -> None:
        """Hash a segment that the catalog has; _Outdated if it is not what the catalog was made from: making it anew names what is damaged."""
        path, now = self._directory / name, time.time()
        stat = _stat(path)
        (sha256,) = self._connection.execute("SELECT sha256 FROM segments WHERE name = ?", (name,)).fetchone()
        if sha256_bytes(segment_content(path)) != sha256:
            raise _Outdated(f"{name} has changed since it was read")
        sql = "UPDATE segments SET size = ?, modified = ?, changed = ?, read_at = ? WHERE name = ?"
        self._connection.execute(sql, (*stat, now, name))

    def _add(self, run: int, name: str, chats: set[str]) -> None:
        """Read a segment whole; adds the chats that have news to `chats`."""
        path, now = self._directory / name, time.time()
        stat, content = _stat(path), segment_content(path)
        lines = segment_lines(path, content)
        sql = "INSERT INTO segments (name, run, size, modified, changed, sha256, read_at) VALUES (?,?,?,?,?,?,?)"
        segment = self._connection.execute(sql, (name, run, *stat, sha256_bytes(content), now)).lastrowid
        for start, length, line in lines:
            if line["kind"] == "tombstone":
                self._add_tombstone(line["tombstone"], run, chats)
            elif line["kind"] != "text":
                sql = "INSERT OR REPLACE INTO records VALUES (?,?)"
                self._connection.execute(sql, (_blob(line["sha256"]), segment))
                self._add_record(line, (segment, start, length), chats)
        if original := orjson.loads(content.partition(b"\n")[0]).get("original"):  # the lines were read, so it is sound
            self._connection.execute("UPDATE segments SET original = ? WHERE name = ?", (original, name))

    def _add_tombstone(self, record: dict[str, Any], run: int, chats: set[str]) -> None:
        tombstone = Tombstone.parse(orjson.dumps(record))
        sql = "INSERT INTO tombstones VALUES (?,?,?) ON CONFLICT (tombstone_id) DO UPDATE SET record = excluded.record"
        self._connection.execute(sql, (tombstone.tombstone_id, run, tombstone.to_json()))
        chats.add(tombstone.chat_id)

    def _add_record(self, line: dict[str, Any], place: tuple[int | None, int, int], chats: set[str]) -> None:
        """A turn becomes the version that is recalled; what remains of one takes its last version away. The others are in `records` only."""
        if line["kind"] == "erased":
            self._add_erased(line, chats)
            return
        try:  # whatever kind the line claims to be: a later program may read what an earlier one could not
            turn = parse_turn(RawRecord.from_json(line), self)
        except RecordRefused:
            return
        sql = "INSERT OR REPLACE INTO turns VALUES (?,?,?,?,?,?,?)"
        self._connection.execute(sql, (turn.turn_id, turn.chat_id, turn.timestamp, _blob(line["sha256"]), *place))
        chats.add(turn.chat_id)

    def _add_erased(self, line: dict[str, Any], chats: set[str]) -> None:
        if line["key"] is None:
            return
        turn_id = ":".join(turn_key(line["key"].encode()))
        owner = self.owner_of(turn_id) or line["chat_id"]
        if owner == line["chat_id"]:  # else the record was of another chat under the same id
            self._connection.execute("INSERT OR REPLACE INTO erased VALUES (?,?)", (turn_id, owner))
            self._connection.execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))
            chats.add(owner)

    def _count(self, chats: Iterable[str]) -> None:
        """The number of turns of these chats, and a digest of what is recalled of each: last versions, and tombstones."""
        tombstones = self._tombstones_by_chat()
        for chat_id in chats:
            digest, turns = hashlib.sha256(), 0
            sql = "SELECT turn_id, sha256 FROM turns WHERE chat_id = ? ORDER BY turn_id"
            for turn_id, sha256 in self._connection.execute(sql, (chat_id,)):
                digest.update(turn_id.encode() + b"\0" + sha256)
                turns += 1
            for tombstone in tombstones.get(chat_id, ()):
                digest.update(b"\1" + tombstone.to_json())
            row = self._one(f"SELECT count(*) {_GONE} AND chat_id = ?", chat_id)
            values = (chat_id, turns + (row[0] if row else 0), digest.hexdigest())
            self._connection.execute("INSERT OR REPLACE INTO chats VALUES (?,?,?)", values)

    def _tombstones_by_chat(self) -> dict[str, list[Tombstone]]:
        found: dict[str, list[Tombstone]] = {}
        for tombstone in self.tombstones.values():
            found.setdefault(tombstone.chat_id, []).append(tombstone)
        return found

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
        return row


#: Turns that have no version left.
_GONE = "FROM erased WHERE NOT EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = erased.turn_id)"


def _precedes(run: int, name: str, before: int | None) -> bool:
    """Texts say nothing about turns, so those of a killed attempt of this run do not matter."""
    return before is None or run < before or is_texts(name)


def _stat(path: Path) -> _Stat:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _blob(sha256: str) -> bytes:
    """32 bytes; of what is no hash (what remains of an erased record may name anything), its text."""
    try:
        return bytes.fromhex(sha256.removeprefix("sha256:"))
    except ValueError:
        return sha256.encode("utf-8", "surrogatepass")


def _text(sha256: bytes) -> str:
    return f"sha256:{sha256.hex()}"
