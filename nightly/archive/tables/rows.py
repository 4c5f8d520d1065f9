"""The rows of the catalog (nightly/archive/catalog.py) that follow from a segment: added, changed where something was erased, compared.

The tables are what results when all segments are read in the order of the runs: a record with a turn becomes its last version, what remains of an
erased record takes the last version away. A segment that is erased later is followed without reading the others: its erased lines take away
what they were the last version of, and the lines that are left have moved.
"""

from __future__ import annotations

from typing import Any

import orjson

from nightly.archive.segments import RawRecord, Segment, WrittenText, event_of, turn_of
from nightly.archive.tables.tables import Stat, Tables, blob
from shared.turns.records import RecordRefused, Tombstone, Turn, turn_key


class Outdated(Exception):
    """The catalog does not follow from the segments as they are now."""


class SegmentRows:
    """The rows of one segment. `chats`: those that have news by it and by other segments are added; each was as its digest says before."""

    def __init__(self, tables: Tables, segment: Segment, stat: Stat, chats: set[str]) -> None:
        self._tables, self._segment, self._stat, self._chats = tables, segment, stat, chats
        self._execute, self.sha256 = tables.connection.execute, segment.sha256
        self._number = self._quarantined = 0

    def add(self, run: int) -> None:
        """A new segment, read after all earlier ones."""
        sql = "INSERT INTO segments (name, run, size, modified, changed, sha256, original, quarantined) VALUES (?,?,?,?,?,?,?,0)"
        row = (self._segment.path.name, run, *self._stat, self._segment.sha256, self._segment.original)
        self._number = self._execute(sql, row).lastrowid or 0
        for start, length, line in self._segment.lines():
            if line["kind"] == "tombstone":
                self._add_tombstone(line["tombstone"], run)
            elif line["kind"] == "text":
                self._add_text(line)
            else:
                self._execute("INSERT OR REPLACE INTO records VALUES (?,?)", (blob(line["sha256"]), self._number))
                if line["kind"] == "event":
                    self._add_event(line)
                else:
                    self._add_record(line, start, length)
        self._execute("UPDATE segments SET quarantined = ? WHERE segment = ?", (self._quarantined, self._number))

    def is_erased(self) -> bool:
        """Whether something was erased from a known segment since it was read."""
        _, sha256, original = self._known()
        return sha256 != self._segment.sha256 and self._segment.original in {sha256, original} - {None}

    def follow_erasing(self) -> None:
        """A known segment from which something was erased; Outdated if it differs in anything else that can be seen."""
        number, _, _ = self._known()
        for table in ("others", "texts", "events"):
            self._execute(f"DELETE FROM {table} WHERE segment = ?", (number,))  # noqa: S608 - one of three
        for start, length, line in self._segment.lines():
            if line["kind"] == "text":
                self._add_text(line)
            elif line["kind"] != "tombstone":
                if self._holder_of(line) is None:
                    raise Outdated(f"{self._segment.path.name} has a record that it did not have")
                if line["kind"] == "event":
                    self._add_event(line)
                else:
                    self._move(line, start, length)
        sql = "UPDATE segments SET size = ?, modified = ?, changed = ?, sha256 = ?, original = ?, quarantined = ? WHERE segment = ?"
        row = (*self._stat, self._segment.sha256, self._segment.original, self._quarantined, number)
        self._execute(sql, row)

    def compare(self) -> None:
        """Outdated unless the segment is as it was when it was read."""
        number, sha256, _ = self._known()
        if self._segment.sha256 != sha256:
            raise Outdated(f"{self._segment.path.name} has changed since it was read")
        sql = "UPDATE segments SET size = ?, modified = ?, changed = ? WHERE segment = ?"
        self._execute(sql, (*self._stat, number))

    def _known(self) -> tuple[int, str, str | None]:
        row = self._tables.one("SELECT segment, sha256, original FROM segments WHERE name = ?", self._segment.path.name)
        assert row  # noqa: S101 - only known segments are asked for
        self._number = row[0]
        return row[0], row[1], row[2]

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

    def _add_text(self, line: dict[str, Any]) -> None:
        written = WrittenText.from_json(line)
        self._execute("INSERT OR REPLACE INTO texts VALUES (?,?,?)", (written.key, self._number, written.chat_id))

    def _add_event(self, line: dict[str, Any]) -> None:
        """The state of its subject, and under which turns a forgetting looks for it."""
        event = event_of(line)
        row = (event.key, self._number, event.state_hash)
        self._execute("INSERT OR REPLACE INTO events VALUES (?,?,?)", row)
        for turn_id in event.sources:
            self._add_other(event.chat_id, turn_id, self._number)

    def _add_record(self, line: dict[str, Any], start: int, length: int) -> None:
        if line["kind"] == "erased":
            self._add_erased(line)
            return
        turn = self._turn(line)
        if turn is None:
            return
        self._has_news(turn.chat_id)
        sha256, old = blob(line["sha256"]), self._version(turn.turn_id)
        if old and old[1:] != (sha256, self._number):
            self._add_other(old[0], turn.turn_id, old[2])
        row = (turn.turn_id, turn.chat_id, turn.timestamp, sha256, self._number, start, length)
        self._execute("INSERT OR REPLACE INTO turns VALUES (?,?,?,?,?,?,?)", row)

    def _add_erased(self, line: dict[str, Any]) -> None:
        """The last version of the turn is gone, unless the record was of another chat under the same id."""
        turn_id = self._note_erased(line)
        if turn_id and (old := self._version(turn_id)):
            if old[1:] != (blob(line["sha256"]), self._number):
                self._add_other(old[0], turn_id, old[2])
            self._execute("DELETE FROM turns WHERE turn_id = ?", (turn_id,))

    def _move(self, line: dict[str, Any], start: int, length: int) -> None:
        """Of a segment that was erased: a record that was left, or what remains of one."""
        sha256 = blob(line["sha256"])
        if line["kind"] == "erased":
            turn_id = self._note_erased(line)
            if turn_id:
                sql = "DELETE FROM turns WHERE turn_id = ? AND segment = ? AND sha256 = ?"
                self._execute(sql, (turn_id, self._number, sha256))
        elif turn := self._turn(line):
            old = self._version(turn.turn_id)
            if old and old[1:] == (sha256, self._number):
                self._execute("UPDATE turns SET start = ?, length = ? WHERE turn_id = ?", (start, length, turn.turn_id))
            else:
                self._add_other(turn.chat_id, turn.turn_id, self._number)

    def _note_erased(self, line: dict[str, Any]) -> str | None:
        """Record what was erased; the turn's id if it was a turn of the chat that has this id."""
        if line["key"] is None:
            return None
        turn_id, chat_id = ":".join(turn_key(line["key"].encode())), line["chat_id"]
        if self._tables.owner_of(turn_id) not in (None, chat_id):
            return None
        self._has_news(chat_id)
        sql = """INSERT INTO erased VALUES (?,?,?,?) ON CONFLICT (turn_id) DO UPDATE SET said_at = excluded.said_at, segment = excluded.segment
            WHERE excluded.segment >= segment"""
        self._execute(sql, (turn_id, chat_id, line["timestamp"], self._number))
        return turn_id

    def _turn(self, line: dict[str, Any]) -> Turn | None:
        """The turn of a record, whatever kind the line claims to be: a later program may read what an earlier one could not."""
        try:
            turn = turn_of(RawRecord.from_json(line))
        except RecordRefused:
            self._quarantined += 1
            return None
        if self._tables.owner_of(turn.turn_id) in (None, turn.chat_id):
            return turn
        self._quarantined += 1
        self._add_other(turn.chat_id, turn.turn_id, self._number)
        return None

    def _version(self, turn_id: str) -> tuple[str, bytes, int] | None:
        """(chat, hash, segment) of the last version."""
        row = self._tables.one("SELECT chat_id, sha256, segment FROM turns WHERE turn_id = ?", turn_id)
        return (row[0], row[1], row[2]) if row else None

    def _add_other(self, chat_id: str, turn_id: str, segment: int) -> None:
        self._execute("INSERT OR IGNORE INTO others VALUES (?,?,?)", (chat_id, turn_id, segment))

    def _holder_of(self, line: dict[str, Any]) -> int | None:
        row = self._tables.one("SELECT segment FROM records WHERE sha256 = ?", blob(line["sha256"]))
        return row[0] if row else None
