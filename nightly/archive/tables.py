"""The tables of the catalog (nightly/archive/catalog.py), and what they say of the archive."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Any

import orjson

from nightly.archive.segments import RawRecord, Segment, event_of, parse_turn
from shared.turns.events import EventKind
from shared.turns.records import RecordRefused, Tombstone, turn_key

#: Raise it when the tables change: then the catalog is made anew.
LAYOUT = 7
SCHEMA = """
CREATE TABLE segments (
  segment INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, run INTEGER NOT NULL, size INTEGER NOT NULL, modified INTEGER NOT NULL,
  changed INTEGER NOT NULL, sha256 TEXT NOT NULL, original TEXT, quarantined INTEGER NOT NULL
);
CREATE TABLE records (sha256 BLOB PRIMARY KEY, segment INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE turns (
  turn_id TEXT PRIMARY KEY, chat_id TEXT NOT NULL, said_at REAL NOT NULL, sha256 BLOB NOT NULL, segment INTEGER NOT NULL,
  start INTEGER NOT NULL, length INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX turns_by_chat ON turns (chat_id, said_at);
CREATE TABLE events (key TEXT PRIMARY KEY, state BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE imports (sha256 BLOB NOT NULL, segment INTEGER NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL);
CREATE TABLE texts (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE erased (turn_id TEXT PRIMARY KEY, chat_id TEXT NOT NULL, said_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX erased_by_chat ON erased (chat_id, said_at);
CREATE TABLE tombstones (tombstone_id TEXT PRIMARY KEY, run INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE chats (chat_id TEXT PRIMARY KEY, turns INTEGER NOT NULL, digest TEXT NOT NULL) WITHOUT ROWID;
"""
#: Turns that have no version left.
GONE = "FROM erased WHERE NOT EXISTS (SELECT 1 FROM turns WHERE turns.turn_id = erased.turn_id)"

#: (segment, start, length in bytes, hash of the record)
Place = tuple[str, int, int, str]
#: Size, modification and change time in nanoseconds.
Stat = tuple[int, int, int]


class Tables:
    """What the catalog says; `connection` is open."""

    connection: sqlite3.Connection

    @property
    def segments(self) -> dict[str, str]:
        """Name → sha256 of each file of the archive, in order of the runs."""
        return dict(self.connection.execute("SELECT name, sha256 FROM segments ORDER BY run, name"))

    def stats(self) -> dict[str, Stat]:
        """Name → size and times of each file, as they were when it was read."""
        rows = self.connection.execute("SELECT name, size, modified, changed FROM segments")
        return {name: (size, modified, changed) for name, size, modified, changed in rows}

    @property
    def originals(self) -> dict[str, str]:
        """Name of a rewritten segment → sha256 of the original file."""
        return dict(self.connection.execute("SELECT name, original FROM segments WHERE original IS NOT NULL"))

    @property
    def tombstones(self) -> dict[str, Tombstone]:
        """By id, in order of the runs that archived them."""
        rows = self.connection.execute("SELECT tombstone_id, record FROM tombstones ORDER BY run, tombstone_id")
        return {name: Tombstone.parse(record) for name, record in rows}

    @property
    def tombstone_runs(self) -> dict[str, int]:
        """Tombstone id → run that archived it first."""
        return dict(self.connection.execute("SELECT tombstone_id, run FROM tombstones"))

    @property
    def counts(self) -> dict[str, int]:
        """How many there are: records (each once), turns with a version left, records other than turns, erased turns, tombstones, texts."""
        tables = ("records", "turns", "erased", "tombstones", "texts", "events")
        counts = {table: self._number(f"SELECT count(*) FROM {table}") for table in tables}  # noqa: S608
        return counts | {"quarantined": self._number("SELECT total(quarantined) FROM segments")}

    def owner_of(self, turn_id: str) -> str | None:
        """The chat of a turn that is archived or was erased."""
        row = self.one("SELECT chat_id FROM turns WHERE turn_id = ?", turn_id)
        return row[0] if row else self.erased_in(turn_id)

    def has_version(self, turn_id: str) -> bool:
        """Whether a version of this turn is left."""
        return self.one("SELECT 1 FROM turns WHERE turn_id = ?", turn_id) is not None

    def last_version(self, turn_id: str) -> str | None:
        """The hash of the record that is recalled for this turn."""
        row = self.one("SELECT sha256 FROM turns WHERE turn_id = ?", turn_id)
        return text(row[0]) if row else None

    def erased_in(self, turn_id: str) -> str | None:
        """The chat that a version of this turn was erased of."""
        row = self.one("SELECT chat_id FROM erased WHERE turn_id = ?", turn_id)
        return row[0] if row else None

    def segment_of(self, sha256: str) -> str | None:
        """The newest segment that has this record, or what remains of it."""
        row = self.one("SELECT name FROM records JOIN segments USING (segment) WHERE records.sha256 = ?", blob(sha256))
        return row[0] if row else None

    def state_of(self, key: str) -> bytes | None:
        """SHA-256 of the state in the last event under this key."""
        row = self.one("SELECT state FROM events WHERE key = ?", key)
        return row[0] if row else None

    @property
    def all_turns(self) -> int:
        """Number of turns of all chats, erased ones included."""
        return self._number("SELECT coalesce(sum(turns), 0) FROM chats")

    def digests(self) -> dict[str, str]:
        """Chat id → digest of what is recalled of it: its last versions, and its tombstones."""
        return dict(self.connection.execute("SELECT chat_id, digest FROM chats ORDER BY chat_id"))

    def turns_of(self, chat_id: str) -> int:
        """Number of turns of a chat, erased ones included."""
        return self._number("SELECT turns FROM chats WHERE chat_id = ?", chat_id)

    def forgotten_of(self, chat_id: str) -> int:
        """Number of turns of a chat that a tombstone covers or has erased."""
        tombstones = self.tombstones_of(chat_id)
        covered = sum(1 for _ in self.covered_by(chat_id, tombstones)) if tombstones else 0
        return covered + self.gone_of(chat_id)

    def gone_of(self, chat_id: str) -> int:
        """Number of turns of a chat that have no version left."""
        return self._number(f"SELECT count(*) {GONE} AND chat_id = ?", chat_id)

    def covered_by(self, chat_id: str, tombstones: Collection[Tombstone]) -> Iterator[str]:
        """The turns of a chat that one of these tombstones of it covers."""
        rows = self.connection.execute("SELECT turn_id, said_at FROM turns WHERE chat_id = ?", (chat_id,))
        return (turn_id for turn_id, said_at in rows if any(one.reaches(turn_id, said_at) for one in tombstones))

    def tombstones_of(self, chat_id: str) -> list[Tombstone]:
        return self._by_chat.get(chat_id, [])

    def place_of(self, turn_id: str) -> Place | None:
        """Where the last version of a turn is."""
        return next(self._places("turns", "WHERE turn_id = ?", turn_id), None)

    def places(self, chat_id: str, *, by_time: bool = False) -> Iterator[Place]:
        """Where the last version of each turn of a chat is, in the order of the segments, or `by_time` as `time_order` has it."""
        order = (
            "said_at, substr(turn_id, 1, length(turn_id) - 5), substr(turn_id, -5) <> ':user'"
            if by_time
            else "run, start"
        )
        return self._places("turns", f"WHERE chat_id = ? ORDER BY {order}", chat_id)

    def places_of_imports(self) -> Iterator[Place]:
        """Where the events of imports are, in the order of the segments."""
        return self._places("imports", "ORDER BY run, start")

    def _places(self, table: str, which: str, *values: object) -> Iterator[Place]:
        sql = f"SELECT name, start, length, {table}.sha256 FROM {table} JOIN segments USING (segment) {which}"  # noqa: S608
        for name, start, length, sha256 in self.connection.execute(sql, values):
            yield name, start, length, text(sha256)

    def digest_of(self, chat_id: str) -> tuple[str, int]:
        """The digest of a chat and its number of turns, counted from their rows."""
        digest, turns = hashlib.sha256(), 0
        sql = "SELECT turn_id, sha256 FROM turns WHERE chat_id = ? ORDER BY turn_id"
        for turn_id, sha256 in self.connection.execute(sql, (chat_id,)):
            digest.update(turn_id.encode() + b"\0" + sha256)
            turns += 1
        for tombstone in self.tombstones_of(chat_id):
            digest.update(b"\1" + tombstone.to_json())
        if gone := self.gone_of(chat_id):  # a late turn that a tombstone covers is counted, too
            digest.update(b"\2%d" % gone)
        return digest.hexdigest(), turns + gone

    def is_whole(self, chat_id: str) -> bool:
        """Whether the rows of a chat are those of its digest; an unknown chat has none."""
        row = self.one("SELECT digest, turns FROM chats WHERE chat_id = ?", chat_id)
        return (row or self.digest_of("")) == self.digest_of(chat_id)

    def one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """The first row."""
        row: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return row

    def _number(self, sql: str, *values: object) -> int:
        row = self.one(sql, *values)
        return int(row[0]) if row else 0

    @cached_property
    def _by_chat(self) -> dict[str, list[Tombstone]]:
        """Tombstones by chat."""
        found: dict[str, list[Tombstone]] = {}
        for tombstone in self.tombstones.values():
            found.setdefault(tombstone.chat_id, []).append(tombstone)
        return found

    def read_tombstones(self) -> None:
        """Sort them by chat again."""
        self.__dict__.pop("_by_chat", None)
        self._by_chat  # noqa: B018 - it is kept


def near(connection: sqlite3.Connection, table: str, span: tuple[str, float, float]) -> Iterator[tuple[float, str]]:
    """(time, turn id) of the turns of a chat in this table, from one time to another, both included."""
    sql = f"SELECT said_at, turn_id FROM {table} WHERE chat_id = ? AND said_at BETWEEN ? AND ?"  # noqa: S608
    return connection.execute(sql, span)


def blob(sha256: str) -> bytes:
    """32 bytes; of what is no hash (what remains of an erased record may name anything), its text."""
    try:
        return bytes.fromhex(sha256.removeprefix("sha256:"))
    except ValueError:
        return sha256.encode("utf-8", "surrogatepass")


def text(sha256: bytes) -> str:
    return f"sha256:{sha256.hex()}"


# ── The rows that follow from a segment. The tables are what results when all segments are read in the order of the runs: a record with a turn
# becomes its last version, what remains of an erased record takes the last version away.


class Outdated(Exception):
    """The catalog does not follow from the segments as they are now."""


class SegmentRows:
    """The rows of one segment, which is read after all earlier ones. `chats`: chats with news in it are added; each was as its digest says
    before."""

    def __init__(self, tables: Tables, segment: Segment, chats: set[str]) -> None:
        self._tables, self._segment, self._chats = tables, segment, chats
        self._execute = tables.connection.execute
        self._number = self._quarantined = 0

    def add(self, run: int, stat: Stat) -> None:
        """Read the segment. `stat`: as it was before that."""
        sql = "INSERT INTO segments (name, run, size, modified, changed, sha256, original, quarantined) VALUES (?,?,?,?,?,?,?,0)"
        row = (self._segment.path.name, run, *stat, self._segment.sha256, self._segment.original)
        self._number = self._execute(sql, row).lastrowid or 0
        for start, length, line in self._segment.lines():
            if line["kind"] == "tombstone":
                self._add_tombstone(line["tombstone"], run)
            elif line["kind"] == "text":
                self._execute("INSERT OR IGNORE INTO texts VALUES (?)", (line["key"],))
            else:
                self._execute("INSERT OR REPLACE INTO records VALUES (?,?)", (blob(line["sha256"]), self._number))
                if line["kind"] == "event":
                    event = event_of(line)
                    self._execute("INSERT OR REPLACE INTO events VALUES (?,?)", (event.key, event.state_hash))
                    if event.kind == EventKind.IMPORT:
                        place = (blob(line["sha256"]), self._number, start, length)
                        self._execute("INSERT INTO imports VALUES (?,?,?,?)", place)
                elif line["kind"] == "erased":
                    self._add_erased(line)
                else:
                    self._add_turn(line, start, length)
        self._execute("UPDATE segments SET quarantined = ? WHERE segment = ?", (self._quarantined, self._number))

    def _add_tombstone(self, record: dict[str, Any], run: int) -> None:
        tombstone = Tombstone.parse(orjson.dumps(record))
        self._has_news(tombstone.chat_id)
        sql = "INSERT INTO tombstones VALUES (?,?,?) ON CONFLICT (tombstone_id) DO UPDATE SET record = excluded.record"
        self._execute(sql, (tombstone.tombstone_id, run, tombstone.to_json()))

    def _has_news(self, chat_id: str) -> None:
        """Outdated if the rows of the chat were not those of its digest: a new digest of what a failing disk has left would hide that."""
        if chat_id not in self._chats:
            if not self._tables.is_whole(chat_id):
                raise Outdated(f"it does not have the turns of chat {chat_id} that it says it has")
            self._chats.add(chat_id)

    def _add_turn(self, line: dict[str, Any], start: int, length: int) -> None:
        """The last version of a turn, whatever kind the line claims to be: a later program may read what an earlier one could not."""
        try:
            turn = parse_turn(RawRecord.from_json(line), self._tables.owner_of)
        except RecordRefused:
            self._quarantined += 1
            return
        self._has_news(turn.chat_id)
        row = (turn.turn_id, turn.chat_id, turn.timestamp, blob(line["sha256"]), self._number, start, length)
        self._execute("INSERT OR REPLACE INTO turns VALUES (?,?,?,?,?,?,?)", row)

    def _add_erased(self, line: dict[str, Any]) -> None:
        """The last version of the turn is gone, unless the record was of another chat under the same id."""
        if line["key"] is None:
            return
        turn_id, chat_id = ":".join(turn_key(line["key"].encode())), line["chat_id"]
        if self._tables.owner_of(turn_id) not in (None, chat_id):
            return
        self._has_news(chat_id)
        self._execute("INSERT OR REPLACE INTO erased VALUES (?,?,?)", (turn_id, chat_id, line["timestamp"]))
        self._execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))
