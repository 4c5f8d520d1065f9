"""Archive: what was exported and is not archived yet goes into one new segment; then the disk is asked whether all of it is there.

Each record is a turn, or it is quarantined: kept with its bytes and the reason, so that it can leave Redis without being lost. The
counts must add up (exported = new + new version + already archived + quarantined), or the night stops here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.night import Night
from nightly.segments import Archive, RawRecord, parse_turn, read_archive, segment_name, write_segment
from shared.errors import LedgerMismatch
from shared.files import make_dir
from shared.records import RecordRefused, Tombstone


@dataclass
class Ledger:
    """Where each exported record went; `chats` by chat id, quarantined ones under "?" (they have no chat that can be trusted)."""

    exported: int = 0
    chats: dict[str, Counter[str]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    def count(self, chat_id: str, what: str) -> None:
        self.exported += 1
        self.chats.setdefault(chat_id, Counter())[what] += 1

    def total(self, what: str) -> int:
        return sum(counts[what] for counts in self.chats.values())

    def to_json(self) -> dict[str, Any]:
        names = ("new", "new_version", "already_archived", "quarantined")
        totals = {name: self.total(name) for name in names}
        if sum(totals.values()) != self.exported:
            raise LedgerMismatch(
                f"{self.exported} records were exported, {totals} are accounted for. Nothing was deleted; report this."
            )
        return {
            "exported": self.exported,
            **totals,
            "reasons": dict(self.reasons),
            "chats": {chat: dict(counts) for chat, counts in self.chats.items()},
        }


def run(night: Night, out: Path) -> dict[str, Any]:
    del out  # the segment itself is the output; it lies in the archive
    make_dir(night.archive_dir)
    earlier = read_archive(night.archive_dir, before=night.run)
    exported = list(_lines(night.output("export") / "records.jsonl"))
    stones = _new_tombstones(earlier, night.output("export") / "tombstones.jsonl")
    ledger, fresh = Ledger(), list[dict[str, Any]]()
    for record in exported:
        line = _classify(record, earlier, ledger)
        if line:
            fresh.append(line)
    _write(night, [*fresh, *stones])
    night.crash_point("archive:segment-written")
    archive = _prove(night, exported)
    return {
        "ledger": ledger.to_json(),
        "new_records": len(fresh),
        "new_tombstones": len(stones),
        "segments": archive.segments,
        "turns": len(archive.versions),
        "forgotten": sum(archive.forgotten_per_chat().values()),
    }


def _lines(path: Path) -> Iterator[RawRecord]:
    with path.open("rb") as handle:
        for line in handle:
            yield RawRecord.from_json(orjson.loads(line))


def _classify(record: RawRecord, earlier: Archive, ledger: Ledger) -> dict[str, Any] | None:
    """The archive's line for a record, or None if it is archived already."""
    try:
        turn = parse_turn(record, earlier)
    except RecordRefused as error:
        known = record.sha256 in earlier.hashes
        ledger.count("?", "already_archived" if known else "quarantined")
        if known:
            return None
        ledger.reasons[str(error)] += 1
        return {"kind": "quarantine", **record.to_json(), "reason": str(error)}
    last = earlier.versions.get(turn.turn_id)
    if (
        last and last.record_sha256 == record.sha256
    ):  # an older version that comes back is a new version: it is what was said last
        ledger.count(turn.chat_id, "already_archived")
        return None
    ledger.count(turn.chat_id, "new_version" if last else "new")
    return {"kind": "turn", **record.to_json()}


def _new_tombstones(earlier: Archive, path: Path) -> list[dict[str, Any]]:
    """Lines for the tombstones not archived yet. An unreadable one stops the night: somebody wanted something forgotten."""
    lines = []
    for number, record in enumerate(_lines(path), start=1):
        try:
            stone = Tombstone.parse(record.value)
        except RecordRefused as error:
            raise LedgerMismatch(
                f"Tombstone {number} in Redis cannot be read: {error}. Mend or remove it, then run the night again."
            ) from error
        if stone.tombstone_id not in earlier.tombstones:
            lines.append({"kind": "tombstone", "tombstone": orjson.loads(stone.to_json())})
    return lines


def _write(night: Night, lines: list[dict[str, Any]]) -> None:
    """The segment, unless there is nothing to write or a killed attempt of this run has written it already."""
    path = night.archive_dir / segment_name(night.run)
    if lines and not path.exists():
        write_segment(path, night.run, lines)


def _prove(night: Night, exported: list[RawRecord]) -> Archive:
    """Read all segments back from the disk and find every exported record in them."""
    archive = read_archive(night.archive_dir)
    missing = {record.sha256 for record in exported} - set(archive.hashes)
    if missing:
        raise LedgerMismatch(
            f"{len(missing)} exported records are not in the archive. Nothing was deleted; report this."
        )
    return archive
