"""What must be remembered while imports are compared with the archive: in a temporary database, so that their size does not matter.

seen     the turns that this night exported from Redis, and those that are taken from the imports (`file`: from which one)
hashes   records that this night exported, and bytes that are no turn, once they are taken
own      the ids in the imports' files, by file, where turns are told by their words
spent    turns of one file that matched a recorded one
names    tombstones and texts that are taken
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nightly.archive.segments import RawRecord
from nightly.archive.tables.tables import blob
from nightly.night.scratch import scratch_database
from shared.turns.records import Turn

_SCHEMA = """
CREATE TABLE seen (
  turn_id TEXT PRIMARY KEY, chat_id TEXT NOT NULL, said_at REAL NOT NULL, letters TEXT NOT NULL, file INTEGER, sha256 BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX seen_by_time ON seen (chat_id, said_at);
CREATE TABLE hashes (sha256 BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE own (file INTEGER, turn_id TEXT, PRIMARY KEY (file, turn_id)) WITHOUT ROWID;
CREATE TABLE spent (turn_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE names (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class SeenTurn(NamedTuple):
    """`file`: the import's file that it was taken from; None: exported from Redis. `sha256`: of its last version."""

    chat_id: str
    file: int | None
    sha256: bytes
    letters: str


class Seen:
    """The database; it is of no use to anybody else, and gone with its folder."""

    def __init__(self, path: Path) -> None:
        self._connection = scratch_database(path, _SCHEMA, cache_kib=32_768)

    def close(self) -> None:
        self._connection.close()

    def add(self, turn: Turn, record: RawRecord, letters: str, file: int | None = None) -> None:
        """A turn; of a further version the words and the hash, while its time stays."""
        sql = """INSERT INTO seen VALUES (?,?,?,?,?,?)
            ON CONFLICT (turn_id) DO UPDATE SET letters = excluded.letters, file = excluded.file, sha256 = excluded.sha256"""
        row = (turn.turn_id, turn.chat_id, turn.timestamp, letters, file, blob(record.sha256))
        self._connection.execute(sql, row)

    def turn(self, turn_id: str) -> SeenTurn | None:
        row = self._one("SELECT chat_id, file, sha256, letters FROM seen WHERE turn_id = ?", turn_id)
        return SeenTurn(*row) if row else None

    def near(self, chat_id: str, first: float, last: float) -> Iterator[tuple[float, str]]:
        """(time, turn id) of the chat's turns from one time to another, both included."""
        sql = "SELECT said_at, turn_id FROM seen WHERE chat_id = ? AND said_at BETWEEN ? AND ?"
        return self._connection.execute(sql, (chat_id, first, last))

    def add_hash(self, record: RawRecord) -> None:
        self._connection.execute("INSERT OR IGNORE INTO hashes VALUES (?)", (blob(record.sha256),))

    def has_hash(self, record: RawRecord) -> bool:
        return self._one("SELECT 1 FROM hashes WHERE sha256 = ?", blob(record.sha256)) is not None

    def add_own(self, ids: Iterable[tuple[int, str]]) -> None:
        """The turn ids of an import: (file, id)."""
        self._connection.execute("DELETE FROM own")
        self._connection.executemany("INSERT OR IGNORE INTO own VALUES (?,?)", ids)

    def is_own(self, file: int, turn_id: str) -> bool:
        return self._one("SELECT 1 FROM own WHERE file = ? AND turn_id = ?", file, turn_id) is not None

    def spend(self, turn_id: str) -> None:
        self._connection.execute("INSERT OR IGNORE INTO spent VALUES (?)", (turn_id,))

    def is_spent(self, turn_id: str) -> bool:
        return self._one("SELECT 1 FROM spent WHERE turn_id = ?", turn_id) is not None

    def next_file(self) -> None:
        self._connection.execute("DELETE FROM spent")

    def is_first(self, name: str) -> bool:
        """Whether this name is taken for the first time."""
        return self._connection.execute("INSERT OR IGNORE INTO names VALUES (?)", (name,)).rowcount > 0

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(sql, values).fetchone()
        return row
