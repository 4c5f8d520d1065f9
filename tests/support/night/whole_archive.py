"""All segments of an archive, read into memory at once: what the programs must find without doing that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.archive.segments import RawRecord, Segment, WrittenText, header_of, parse_turn
from shared.system.archive_folder import archive_files
from shared.system.files import sha256_file
from shared.turns.records import RecordRefused, Tombstone, Turn, time_order, turn_key


@dataclass(frozen=True)
class ArchivedTurn:
    turn: Turn
    run: int
    record_sha256: str


@dataclass(frozen=True)
class Erased:
    """What remains of an erased turn: its chat and its time (POSIX seconds)."""

    chat_id: str
    timestamp: float
    run: int


@dataclass
class Archive:
    """All segments, read and verified."""

    segments: dict[str, str] = field(default_factory=dict)  # name -> sha256 of the file
    hashes: dict[str, str] = field(default_factory=dict)  # record sha256 -> segment that contains it
    versions: dict[str, ArchivedTurn] = field(default_factory=dict)  # turn id -> version of the highest run
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)  # record sha256 -> reason
    texts: dict[str, WrittenText] = field(default_factory=dict)  # by key, in order of the runs
    erased: dict[str, Erased] = field(default_factory=dict)  # turn id -> remains; `versions` may have a later one
    originals: dict[str, str] = field(default_factory=dict)  # name of a rewritten segment -> sha256 of the first file
    tombstone_runs: dict[str, int] = field(default_factory=dict)  # tombstone id -> run that archived it

    def turns(self) -> list[Turn]:
        """What may be recalled: the last version of every turn that no tombstone covers, in order of chat and time."""
        turns = [v.turn for v in self.versions.values() if not self._is_forgotten(v.turn)]
        return sorted(turns, key=lambda turn: (turn.chat_id, time_order(turn)))

    def owner_of(self, turn_id: str) -> str | None:
        """The chat of a turn that is archived or was erased."""
        known = self.versions.get(turn_id)
        owner = known.turn if known else self.erased.get(turn_id)
        return owner.chat_id if owner else None

    def turns_per_chat(self) -> dict[str, int]:
        """Number of turns by chat, erased ones included; each turn counts once, however many versions it has."""
        return dict(Counter([*(version.turn.chat_id for version in self.versions.values()), *self._gone()]))

    def forgotten_per_chat(self) -> dict[str, int]:
        """Number of turns by chat that a tombstone covers or has erased; counted independently, so that the ledger can compare it with `turns`."""
        covered = (v.turn.chat_id for v in self.versions.values() if self._is_forgotten(v.turn))
        return dict(Counter([*covered, *self._gone()]))

    def note_erased(self, line: dict[str, Any], run: int) -> None:
        """Add an erased record: the last version of the turn is gone, unless the record was of another chat under the same id."""
        if line["key"] is None:
            return
        turn_id = ":".join(turn_key(line["key"].encode()))
        owner = self.owner_of(turn_id) or line["chat_id"]
        if owner == line["chat_id"]:
            self.erased[turn_id] = Erased(owner, line["timestamp"], run)
            self.versions.pop(turn_id, None)

    def _gone(self) -> Iterator[str]:
        """The chat of each turn that has no version left."""
        return (erased.chat_id for turn_id, erased in self.erased.items() if turn_id not in self.versions)

    def _is_forgotten(self, turn: Turn) -> bool:
        return any(tombstone.covers(turn) for tombstone in self.tombstones.values())


def read_archive(directory: Path) -> Archive:
    """Read and verify all segments; ArchiveDamaged names the first one that fails."""
    archive = Archive()
    for run, name in archive_files(directory):
        add_segment(archive, directory, run, name)
    return archive


def add_segment(archive: Archive, directory: Path, run: int, name: str) -> None:
    """Read one file into `archive` and verify it; ArchiveDamaged leaves `archive` unchanged."""
    for record in Segment(directory / name):
        if record["kind"] == "erased":
            archive.hashes[record["sha256"]] = name
            archive.note_erased(record, run)
            continue
        if record["kind"] == "text":
            archive.texts[record["key"]] = WrittenText.from_json(record)
            continue
        if record["kind"] == "tombstone":
            tombstone = Tombstone.parse(orjson.dumps(record["tombstone"]))
            archive.tombstones[tombstone.tombstone_id] = tombstone
            archive.tombstone_runs.setdefault(tombstone.tombstone_id, run)
            continue
        raw = RawRecord.from_json(record)
        archive.hashes[record["sha256"]] = name
        try:  # whatever kind the line claims to be: a later program may read what an earlier one could not
            turn = parse_turn(raw, archive)
        except RecordRefused as error:
            archive.quarantined[record["sha256"]] = str(error)
            continue
        archive.versions[turn.turn_id] = ArchivedTurn(turn, run, record["sha256"])
    archive.segments[name] = sha256_file(directory / name)
    if original := header_of(directory / name).get("original"):
        archive.originals[name] = original
