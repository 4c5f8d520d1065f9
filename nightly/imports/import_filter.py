"""What of an import is new: decided in one place, for the night that imports it and for the dry run that only reports it.

    known      already recorded: the same bytes, the same turn id, or (for other records of the bot's chats) the same words at about that time
    differs    a turn that is recorded with other bytes: the recorded one stays, an import never replaces it
    forgotten  a tombstone covers it, it was erased, or it has the time of an erased turn, whose words can no longer be compared

Several versions of a turn in one file of JSON lines are all imported, in order, if none of them was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from nightly.archive.catalog import Catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.segments import RawRecord, parse_turn
from nightly.archive.tables import blob
from nightly.imports.candidates import Candidate, come_again
from nightly.imports.matching import Recorded, Seen, SeenTurn, letters
from shared.turns.records import RecordRefused, Tombstone, Turn

#: The file of what must be remembered, and removed with its folder.
SEEN = "seen.sqlite"


class ImportVerdict(StrEnum):
    NEW = "new"
    KNOWN = "known"
    DIFFERS = "differs"
    FORGOTTEN = "forgotten"


@dataclass
class ImportCounts:
    """The outcome of an import, in total and by chat; `first` and `last` are the times of new turns."""

    sums: Counter[str] = field(default_factory=Counter)
    chats: dict[str, Counter[str]] = field(default_factory=dict)
    first: float | None = None
    last: float | None = None

    def count(self, candidate: Candidate, verdict: ImportVerdict) -> None:
        self.sums[verdict] += 1
        self.chats.setdefault(candidate.turn.chat_id, Counter())[verdict] += 1
        if verdict is ImportVerdict.NEW:
            said_at = candidate.turn.timestamp
            self.first = said_at if self.first is None else min(self.first, said_at)
            self.last = said_at if self.last is None else max(self.last, said_at)

    def to_json(self) -> dict[str, Any]:
        return {
            **{str(verdict): self.sums[verdict] for verdict in ImportVerdict},
            "first": self.first,
            "last": self.last,
            "chats": {
                chat: {str(verdict): n for verdict, n in counts.items()} for chat, counts in sorted(self.chats.items())
            },
        }


class ImportFilter:
    """Compares candidates with known turns. What it must remember of them is in a file in `folder`, without words if `by_words` is false."""

    def __init__(self, catalog: Catalog, reader: ChatReader, folder: Path, *, by_words: bool = True) -> None:
        self._catalog, self._seen, self._by_words = catalog, Seen(folder / SEEN), by_words
        self._recorded = Recorded(catalog, reader, self._seen)
        self._tombstones: dict[str, list[Tombstone]] = {}
        self.undone = self._recorded.undone  # what the tombstones of undone imports name, and no other
        self._file = 0

    def close(self) -> None:
        self._seen.close()

    def add_known(self, exported: Iterable[RawRecord], tombstones: Iterable[Tombstone]) -> None:
        """What is known beside the archive. `exported`, `tombstones`: records and tombstones that this night exported from Redis."""
        known = {one.tombstone_id: one for one in (*tombstones, *self._catalog.tombstones.values())}
        for tombstone in known.values():
            self._tombstones.setdefault(tombstone.chat_id, []).append(tombstone)
            if tombstone.undo and tombstone.erase:
                self.undone |= tombstone.named
            elif tombstone.erase:
                self._seen.add_erased(tombstone)
        self.undone.difference_update(*(one.named for one in known.values() if not one.undo))  # forgotten is forgotten
        for record in exported:
            self._seen.add_hash(record)
            with suppress(RecordRefused):
                self._remember(parse_turn(record, self._catalog.owner_of), record)

    def as_wanted(self, candidate: Candidate) -> Candidate:
        """The candidate as it may come in."""
        return come_again(candidate, self.undone) if self.undone else candidate

    def expect(self, candidates: Iterable[tuple[int, Candidate]]) -> None:
        """The next import: its candidates by the number of their file in it, which are looked through before the first of them is judged."""
        if self._by_words:
            self._seen.add_own((self._file + file, one.turn.turn_id) for file, one in candidates)

    def classify(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, ImportVerdict]]:
        """Verdicts on one file's candidates, in order. Equal words at about the same time are one turn across files, but two within a file."""
        self._file += 1
        self._seen.next_file()
        for candidate in candidates:
            yield candidate, self._verdict(candidate, candidate.turn, candidate.record)

    def _remember(self, turn: Turn, record: RawRecord, file: int | None = None) -> None:
        self._seen.add(turn, record, letters(turn.content) if self._by_words else "", file)

    def _verdict(self, candidate: Candidate, turn: Turn, record: RawRecord) -> ImportVerdict:
        if any(tombstone.covers(turn) for tombstone in self._tombstones.get(turn.chat_id, [])):
            return ImportVerdict.FORGOTTEN
        seen = self._seen.turn(turn.turn_id)
        known = (seen is not None and seen.file is None) or self._catalog.has_version(turn.turn_id)
        if not known and self._catalog.erased_in(turn.turn_id) == turn.chat_id:
            return ImportVerdict.FORGOTTEN
        if self._seen.has_hash(record) or self._catalog.segment_of(record.sha256) is not None:
            return ImportVerdict.KNOWN
        if known:
            return ImportVerdict.DIFFERS if candidate.verbatim else ImportVerdict.KNOWN
        if seen:
            return self._version(candidate, turn, record, seen)
        if candidate.by_words and (twin := self._recorded.twin(turn, self._file)):
            self._seen.spend(twin)
            return ImportVerdict.KNOWN
        if not (candidate.verbatim or candidate.again) and self._recorded.has_erased_near(turn):
            return ImportVerdict.FORGOTTEN
        self._remember(turn, record, self._file)
        return ImportVerdict.NEW

    def _version(self, candidate: Candidate, turn: Turn, record: RawRecord, seen: SeenTurn) -> ImportVerdict:
        """The verdict on a further version of a turn that this import already has."""
        if seen.sha256 == blob(record.sha256) or not candidate.verbatim:
            return ImportVerdict.KNOWN
        if (seen.file, seen.chat_id) != (self._file, turn.chat_id):
            return ImportVerdict.DIFFERS
        self._remember(turn, record, self._file)
        return ImportVerdict.NEW
