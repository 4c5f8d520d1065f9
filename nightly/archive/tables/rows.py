"""The rows of the catalog (nightly/archive/catalog.py) that follow from a segment.

The tables are what results when all segments are read in the order of the runs: a record with a turn becomes its last version, what remains of an
erased record takes the last version away.
"""

from __future__ import annotations

from typing import Any

import orjson

from nightly.archive.segments import RawRecord, Segment, event_of, turn_of
from nightly.archive.tables.tables import Stat, Tables, blob
from shared.turns.records import RecordRefused, Tombstone, turn_key


class Outdated(Exception):
    """The catalog does not follow from the segments as they are now."""


class SegmentRows:
    """The rows of one segment, which is read after all earlier ones. `chats`: those that have news by it are added; each was as its digest says
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
            turn = turn_of(RawRecord.from_json(line))
        except RecordRefused:
            self._quarantined += 1
            return
        if self._tables.owner_of(turn.turn_id) not in (None, turn.chat_id):
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
