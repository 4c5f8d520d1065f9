"""The filter of imports as one that has the whole archive in memory: what the one with a catalog is compared with."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator

from nightly.archive.segments import RawRecord, parse_turn
from nightly.imports.candidates import Candidate
from nightly.imports.import_filter import ImportVerdict
from nightly.imports.matching import PART_CHARACTERS, Moments, letters
from shared.turns.records import RecordRefused, Tombstone, Turn
from tests.support.night.whole_archive import Archive


class WholeFilter:
    """Compares candidates with known turns. `exported`: records that this night exported from Redis; `tombstones`: all, including staged ones."""

    def __init__(self, archive: Archive, exported: Iterable[RawRecord], tombstones: Iterable[Tombstone]) -> None:
        self._archive = archive
        self._tombstones: dict[str, list[Tombstone]] = {}
        for tombstone in {s.tombstone_id: s for s in (*tombstones, *archive.tombstones.values())}.values():
            self._tombstones.setdefault(tombstone.chat_id, []).append(tombstone)
        self._known_tombstones = set(archive.tombstones)
        self._texts = set(archive.texts)
        self._hashes = set(archive.hashes)
        self._known = {turn_id: version.turn for turn_id, version in archive.versions.items()}
        for record in exported:
            self._hashes.add(record.sha256)
            if turn := _turn_of(record, archive):
                self._known[turn.turn_id] = turn
        self._recorded = WholeRecorded(self._known.values())
        self._erased = Moments()
        for turn_id, erased in archive.erased.items():
            self._erased.add(erased.chat_id, turn_id, erased.timestamp)
        for tombstone in (
            tombstone for tombstones in self._tombstones.values() for tombstone in tombstones if tombstone.erase
        ):
            for turn_id, said_at in tombstone.said_at.items():  # one that was never archived
                self._erased.add(tombstone.chat_id, turn_id, said_at)
        self._taken: dict[str, tuple[int, str, str]] = {}  # turn id → (file, chat, last version's hash)
        self._file = 0

    def classify(self, candidates: Iterable[Candidate]) -> Iterator[tuple[Candidate, ImportVerdict]]:
        """Verdicts on one file's candidates, in order. Equal words at about the same time are one turn across files, but two within a file."""
        self._file += 1
        here, twins, taken = list(candidates), set[str](), list[Turn]()
        own = {candidate.turn.turn_id for candidate in here if candidate.turn}
        for candidate in here:
            verdict = self._verdict(candidate, own, twins)
            if verdict is ImportVerdict.NEW and candidate.turn:
                taken.append(candidate.turn)
            yield candidate, verdict
        self._recorded.add(taken)

    def _verdict(self, candidate: Candidate, own: set[str], twins: set[str]) -> ImportVerdict:
        if candidate.tombstone:
            return _once(candidate.tombstone.tombstone_id, self._known_tombstones)
        if candidate.text:
            if any(tombstone.erase for tombstone in self._tombstones.get(candidate.text.chat_id, [])):
                return ImportVerdict.FORGOTTEN  # it may contain the words
            return _once(candidate.text.key, self._texts)
        assert candidate.record
        if candidate.turn is None or (candidate.quarantined and self._of_another_chat(candidate.turn)):
            return _once(candidate.record.sha256, self._hashes)
        return self._turn(candidate, candidate.turn, candidate.record.sha256, own, twins)

    def _of_another_chat(self, turn: Turn) -> bool:
        """Whether a turn with this id is known in another chat: then these bytes are quarantined again."""
        known, taken = self._known.get(turn.turn_id), self._taken.get(turn.turn_id)
        return (known is not None and known.chat_id != turn.chat_id) or (taken is not None and taken[1] != turn.chat_id)

    def _turn(self, candidate: Candidate, turn: Turn, sha256: str, own: set[str], twins: set[str]) -> ImportVerdict:
        if any(tombstone.covers(turn) for tombstone in self._tombstones.get(turn.chat_id, [])):
            return ImportVerdict.FORGOTTEN
        erased = self._archive.erased.get(turn.turn_id)
        if erased and erased.chat_id == turn.chat_id and turn.turn_id not in self._known:
            return ImportVerdict.FORGOTTEN
        if sha256 in self._hashes:
            return ImportVerdict.KNOWN
        if turn.turn_id in self._known:
            return ImportVerdict.DIFFERS if candidate.verbatim else ImportVerdict.KNOWN
        if turn.turn_id in self._taken:
            return self._version(candidate, turn, sha256)
        if not candidate.verbatim:
            if twin := self._recorded.twin(turn, own, twins):
                twins.add(twin)
                return ImportVerdict.KNOWN
            if self._erased.near(turn):
                return ImportVerdict.FORGOTTEN
        self._taken[turn.turn_id] = (self._file, turn.chat_id, sha256)
        return ImportVerdict.NEW

    def _version(self, candidate: Candidate, turn: Turn, sha256: str) -> ImportVerdict:
        """The verdict on a further version of a turn that this import already has."""
        file, chat_id, last = self._taken[turn.turn_id]
        if sha256 == last or not candidate.verbatim:
            return ImportVerdict.KNOWN
        if file != self._file or chat_id != turn.chat_id:
            return ImportVerdict.DIFFERS
        self._taken[turn.turn_id] = (file, chat_id, sha256)
        return ImportVerdict.NEW


def _once(name: str, known: set[str]) -> ImportVerdict:
    if name in known:
        return ImportVerdict.KNOWN
    known.add(name)
    return ImportVerdict.NEW


def _turn_of(record: RawRecord, archive: Archive) -> Turn | None:
    try:
        return parse_turn(record, archive)
    except RecordRefused:
        return None


class WholeRecorded:
    """The known turns, searchable by their words."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self._moments, self._turns = Moments(), dict[str, Turn]()
        self.add(turns)

    def add(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            if turn.turn_id not in self._turns:
                self._moments.add(turn.chat_id, turn.turn_id, turn.timestamp)
            self._turns[turn.turn_id] = turn

    def twin(self, turn: Turn, own: Collection[str], spent: Collection[str]) -> str | None:
        """The id of a known turn with these words, except `own` ones; with equal words (not parts) each turn matches once: `spent` ones do not."""
        wanted = letters(turn.content)
        part_of = None
        for turn_id in self._moments.near(turn):
            if turn_id in own:
                continue
            known = letters(self._turns[turn_id].content)
            if known == wanted and turn_id not in spent:
                return turn_id
            if len(wanted) >= PART_CHARACTERS and len(known) > len(wanted) and wanted in known:
                part_of = part_of or turn_id
        return part_of


def classify_by_unit(known: WholeFilter, candidates: list[Candidate]) -> Iterator[tuple[Candidate, ImportVerdict]]:
    """Verdicts file by file; quarantined records come last, so that none takes the place of a turn."""
    ordered = sorted(candidates, key=lambda candidate: candidate.quarantined)
    for _, group in itertools.groupby(ordered, key=lambda candidate: (candidate.quarantined, candidate.unit)):
        yield from known.classify(group)
