"""The chunks of single chats, cut from the archive: the catalog says where the turns of a chat are, and only these lines are read.

Each line is proven by the hash that the catalog has of its record. A turn that cannot be cut counts as one without text, and is reported: no
single message may stop the night of all chats. It is archived, and each build tries it again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson

from nightly.archive.catalog import Catalog
from nightly.archive.segments import RawRecord
from nightly.archive.tables import Place
from nightly.index.chunk_file import line_of
from nightly.night.failure import RESTORE, reason_of
from shared.errors import ArchiveDamaged
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import RecordRefused, Turn

#: Segments that are open at the same time.
OPEN_FILES = 200


class ChatReader(ExitStack):
    """Reads chats; a context manager, which closes the segments. ArchiveDamaged where a line is not what the catalog says: then the next night makes
    the catalog anew."""

    def __init__(self, catalog: Catalog, directory: Path) -> None:
        super().__init__()
        self._catalog, self._directory = catalog, directory
        self._files: dict[str, int] = {}

    def archived(self, chat_id: str) -> Iterator[Turn]:
        """The last version of each turn, including turns that a tombstone hides, as they lie in the segments."""
        return (self.read(place, chat_id) for place in self._catalog.places_of(chat_id))

    def recalled(self, chat_id: str) -> Iterator[Turn]:
        """The turns that no tombstone covers, in order of time."""
        tombstones = self._catalog.tombstones_of(chat_id)
        turns = (self.read(place, chat_id) for place in self._catalog.places_of(chat_id, by_time=True))
        return (turn for turn in turns if not any(one.covers(turn) for one in tombstones))

    def cut(self, chat_id: str, zone: ZoneInfo, account: dict[str, int], set_aside: dict[str, str]) -> Iterator[bytes]:
        """The chunks of a chat as lines of `chunks.jsonl`, one turn after the other: a chat may have very many.

        With the last one, `account` says what became of the turns (nightly/night/ledger.py): `archived` and `forgotten` as the catalog counts them,
        the rest from what was read. `set_aside`: why turns could not be cut, turn id → name of an error.
        """
        turns = with_chunks = chunks = 0
        for turn in self.recalled(chat_id):
            turns += 1
            try:
                made = lines_of(turn, zone)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with this turn, the others are processed
                set_aside[turn.turn_id] = reason_of(error)
                continue
            with_chunks += bool(made)
            chunks += len(made)
            yield from made
        account |= {
            "archived": self._catalog.turns_of(chat_id),
            "turns": turns,
            "with_chunks": with_chunks,
            "forgotten": self._catalog.forgotten_of(chat_id),
            "without_text": turns - with_chunks,
            "chunks": chunks,
        }

    def read(self, place: Place, chat_id: str) -> Turn:
        """The turn of this chat that is there."""
        raw = self.raw(place)
        try:
            turn = Turn.parse(raw.key, raw.value)
            if turn.chat_id != chat_id:
                raise ValueError("it has another record there")
        except (ValueError, RecordRefused) as error:
            raise self._damaged(place, error) from error
        return turn

    def raw(self, place: Place) -> RawRecord:
        """The record that is there."""
        name, start, length, sha256 = place
        try:
            record = RawRecord.from_json(orjson.loads(os.pread(self._file(name), length, start)))
            if record.sha256 != sha256:
                raise ValueError("it has another record there")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._damaged(place, error) from error
        return record

    def _damaged(self, place: Place, error: Exception) -> ArchiveDamaged:
        self._catalog.distrust()
        return ArchiveDamaged(
            f"Archive segment {self._directory / place[0]} does not have the turn that it had at byte {place[1]}: {error}. "
            f"Nothing was built from it. {RESTORE}"
        )

    def _file(self, name: str) -> int:
        if name not in self._files:
            if len(self._files) >= OPEN_FILES:
                self.close()
                self._files.clear()
            self._files[name] = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)
            self.callback(os.close, self._files[name])
        return self._files[name]


def lines_of(turn: Turn, zone: ZoneInfo) -> list[bytes]:
    """The chunks of a turn."""
    return [line_of(chunk, indexed_text(chunk, zone)) for chunk in chunks_of(turn)]
