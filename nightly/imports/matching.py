"""Whether a turn was already recorded under another id: same chat, same role, about the same time, the same words.

Telegram, a session file and the wire have different clocks, ids and spellings: Markdown is removed, a long answer comes in parts. So only
letters and digits are compared.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.segments import RawRecord
from nightly.archive.tables import blob, near
from nightly.night.folder import scratch_database
from shared.turns.records import Tombstone, Turn

_SCHEMA = """
CREATE TABLE seen (
  turn_id TEXT PRIMARY KEY, chat_id TEXT NOT NULL, said_at REAL NOT NULL, letters TEXT NOT NULL, file INTEGER, sha256 BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX seen_by_time ON seen (chat_id, said_at);
CREATE TABLE hashes (sha256 BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE own (file INTEGER, turn_id TEXT, PRIMARY KEY (file, turn_id)) WITHOUT ROWID;
CREATE TABLE spent (turn_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE erased (chat_id TEXT, said_at REAL, turn_id TEXT, PRIMARY KEY (chat_id, said_at, turn_id)) WITHOUT ROWID;
"""


class SeenTurn(NamedTuple):
    """`file`: the import's file that it was taken from; None: exported from Redis. `sha256`: of its last version."""

    chat_id: str
    file: int | None
    sha256: bytes
    letters: str


class Seen:
    """What must be remembered while imports are compared, in a temporary database, so that their size does not matter; gone with its folder.

    seen     the turns that this night exported from Redis, and the ones taken from the imports (`file`: from which one)
    hashes   records that this night exported
    own      the ids in the imports' files, by file, where turns are told by their words
    spent    turns of one file that matched a recorded one
    erased   turns that erasing tombstones name, archived or not
    """

    def __init__(self, path: Path) -> None:
        self.connection = scratch_database(path, _SCHEMA, cache_kib=32_768)

    def close(self) -> None:
        self.connection.close()

    def add(self, turn: Turn, record: RawRecord, letters: str, file: int | None = None) -> None:
        """A turn; of a further version the words and the hash, while its time stays."""
        sql = """INSERT INTO seen VALUES (?,?,?,?,?,?)
            ON CONFLICT (turn_id) DO UPDATE SET letters = excluded.letters, file = excluded.file, sha256 = excluded.sha256"""
        row = (turn.turn_id, turn.chat_id, turn.timestamp, letters, file, blob(record.sha256))
        self.connection.execute(sql, row)

    def turn(self, turn_id: str) -> SeenTurn | None:
        row = self._one("SELECT chat_id, file, sha256, letters FROM seen WHERE turn_id = ?", turn_id)
        return SeenTurn(*row) if row else None

    def add_erased(self, tombstone: Tombstone) -> None:
        rows = ((tombstone.chat_id, said_at, turn_id) for turn_id, said_at in tombstone.said_at.items())
        self.connection.executemany("INSERT OR IGNORE INTO erased VALUES (?,?,?)", rows)

    def add_hash(self, record: RawRecord) -> None:
        self.connection.execute("INSERT OR IGNORE INTO hashes VALUES (?)", (blob(record.sha256),))

    def has_hash(self, record: RawRecord) -> bool:
        return self._one("SELECT 1 FROM hashes WHERE sha256 = ?", blob(record.sha256)) is not None

    def add_own(self, ids: Iterable[tuple[int, str]]) -> None:
        """The turn ids of an import: (file, id)."""
        self.connection.execute("DELETE FROM own")
        self.connection.executemany("INSERT OR IGNORE INTO own VALUES (?,?)", ids)

    def is_own(self, file: int, turn_id: str) -> bool:
        return self._one("SELECT 1 FROM own WHERE file = ? AND turn_id = ?", file, turn_id) is not None

    def spend(self, turn_id: str) -> None:
        self.connection.execute("INSERT OR IGNORE INTO spent VALUES (?)", (turn_id,))

    def is_spent(self, turn_id: str) -> bool:
        return self._one("SELECT 1 FROM spent WHERE turn_id = ?", turn_id) is not None

    def next_file(self) -> None:
        self.connection.execute("DELETE FROM spent")

    def _one(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.connection.execute(sql, values).fetchone()
        return row


#: An answer may take minutes, and h-cli dates the question when it is answered.
NEAR_SECONDS = 15 * 60
#: Shorter texts (in letters and digits) never match as a part: `yes` occurs in too many turns.
PART_CHARACTERS = 20

#: A message in a group names the bot; the recorded turn does not.
_BOT_NAME = re.compile(r"@\w{2,29}bot\b", re.IGNORECASE)


@lru_cache(maxsize=8192)
def letters(text: str) -> str:
    """Letters and digits of a text, case-folded and normalised; of a text without any, everything but white space."""
    plain = unicodedata.normalize("NFKC", _BOT_NAME.sub(" ", text)).casefold()
    return "".join(filter(str.isalnum, plain)) or "".join(plain.split())


def role_of(turn_id: str) -> str:
    return turn_id.rpartition(":")[2]


class Recorded:
    """The recorded turns, including what this night exported or took from imports, searchable by their words."""

    def __init__(self, catalog: Catalog, reader: ChatReader, seen: Seen) -> None:
        self._catalog, self._seen = catalog, seen
        self._reader = reader
        self._archived = lru_cache(maxsize=8192)(self._letters_in_archive)
        self.undone = set[str]()  # turns that are on their way out, and no twins

    def twin(self, turn: Turn, file: int) -> str | None:
        """The id of a recorded turn with these words, except those in the same `file`; with equal words (not parts) each turn matches once: a spent
        one does not."""
        wanted, part_of = letters(turn.content), None
        for turn_id in self._near(turn):
            if self._seen.is_own(file, turn_id):
                continue
            known = seen.letters if (seen := self._seen.turn(turn_id)) else self._archived(turn_id, turn.chat_id)
            if known == wanted and not self._seen.is_spent(turn_id):
                return turn_id
            if len(wanted) >= PART_CHARACTERS and len(known) > len(wanted) and wanted in known:
                part_of = part_of or turn_id
        return part_of

    def _near(self, turn: Turn) -> list[str]:
        """Turn ids of its chat and role within NEAR_SECONDS, the nearest first."""
        archived = (row for row in _around(turn, self._catalog, "turns") if self._seen.turn(row[1]) is None)
        found = nearest(turn, [*archived, *_around(turn, self._seen, "seen")])
        return [one for one in found if one not in self.undone]

    def has_erased_near(self, turn: Turn) -> bool:
        """Whether a turn of its chat and role was erased within NEAR_SECONDS, other than by undoing an import."""
        erased = (row for known in (self._seen, self._catalog) for row in _around(turn, known, "erased"))
        return bool(nearest(turn, (row for row in erased if row[1] not in self.undone)))

    def _letters_in_archive(self, turn_id: str, chat_id: str) -> str:
        place = self._catalog.place_of(turn_id)
        return letters(self._reader.read(place, chat_id).content) if place else ""


def _around(turn: Turn, known: Seen | Catalog, table: str) -> Iterator[tuple[float, str]]:
    span = (turn.chat_id, turn.timestamp - NEAR_SECONDS, turn.timestamp + NEAR_SECONDS)
    return near(known.connection, table, span)


def nearest(turn: Turn, moments: Iterable[tuple[float, str]]) -> list[str]:
    """Of (time, turn id), the ids of the turn's role, the nearest to its time first."""
    ordered = sorted(moment for moment in moments if role_of(moment[1]) == turn.role)
    return [turn_id for _, turn_id in sorted(ordered, key=lambda one: abs(one[0] - turn.timestamp))]
