"""All segments of an archive, read into memory at once: what the programs must find without doing that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.archive.segments import RawRecord, Segment, WrittenText, parse_turn
from shared.system.archive_folder import archive_files
from shared.system.files import sha256_file
from shared.turns.records import RecordRefused, Tombstone, Turn, time_order, turn_key


@dataclass
class Archive:
    """All segments, read and verified."""

    segments: dict[str, str] = field(default_factory=dict)  # name -> sha256 of the file
    hashes: dict[str, str] = field(default_factory=dict)  # record sha256 -> segment that contains it
    versions: dict[str, tuple[Turn, str]] = field(default_factory=dict)  # turn id -> version of the highest run, sha256
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    texts: dict[str, WrittenText] = field(default_factory=dict)  # by key, in order of the runs
    erased: dict[str, str] = field(default_factory=dict)  # turn id -> its chat; `versions` may have a later one
    originals: dict[str, str] = field(default_factory=dict)  # name of a rewritten segment -> sha256 of the first file
    tombstone_runs: dict[str, int] = field(default_factory=dict)  # tombstone id -> run that archived it

    def turns(self) -> list[Turn]:
        """What may be recalled: the last version of every turn that no tombstone covers, in order of chat and time."""
        turns = [turn for turn, _ in self.versions.values() if not self._is_forgotten(turn)]
        return sorted(turns, key=lambda turn: (turn.chat_id, time_order(turn)))

    def owner_of(self, turn_id: str) -> str | None:
        """The chat of a turn that is archived or was erased."""
        known = self.versions.get(turn_id)
        return known[0].chat_id if known else self.erased.get(turn_id)

    def turns_per_chat(self) -> dict[str, int]:
        """Number of turns by chat, erased ones included; each turn counts once, however many versions it has."""
        return dict(Counter([*(turn.chat_id for turn, _ in self.versions.values()), *self._gone()]))

    def forgotten_per_chat(self) -> dict[str, int]:
        """Number of turns by chat that a tombstone covers or has erased; counted independently, so that the ledger can compare it with `turns`."""
        covered = (turn.chat_id for turn, _ in self.versions.values() if self._is_forgotten(turn))
        return dict(Counter([*covered, *self._gone()]))

    def note_erased(self, line: dict[str, Any]) -> None:
        """Add an erased record: the last version of the turn is gone, unless the record was of another chat under the same id."""
        if line["key"] is None:
            return
        turn_id = ":".join(turn_key(line["key"].encode()))
        owner = self.owner_of(turn_id) or line["chat_id"]
        if owner == line["chat_id"]:
            self.erased[turn_id] = owner
            self.versions.pop(turn_id, None)

    def _gone(self) -> Iterator[str]:
        """The chat of each turn that has no version left."""
        return (chat_id for turn_id, chat_id in self.erased.items() if turn_id not in self.versions)

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
            archive.note_erased(record)
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
        with suppress(RecordRefused):  # whatever kind the line claims to be
            turn = parse_turn(raw, archive.owner_of)
            archive.versions[turn.turn_id] = turn, record["sha256"]
    archive.segments[name] = sha256_file(directory / name)
    if original := Segment(directory / name).original:
        archive.originals[name] = original
