"""Erasing: what a tombstone with `erase` covers is removed from the night host's files. Part of the archive step, so it precedes every build.

A segment with such a record is rewritten without its words, read back, compared line by line with the old one, and renamed over it.
What remains of a turn is its key, chat and time, which prevent it from being imported again; of anything else, its hash. The new file depends
only on the first one and on what is erased from it, so copies that were erased in several steps end up identical. After a crash some
segments are done; the next run does the rest, and repeating it changes nothing.

Before the words are removed from the archive, everything derived from them is removed: the catalog, cached vectors, the kept index, damaged copies.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import orjson

from nightly.archive.catalog import drop_catalog, open_catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.segments import (
    DAMAGED,
    RawRecord,
    WrittenText,
    header_of,
    read_segment,
    read_texts,
    write_segment,
)
from nightly.index.previous import LAST
from nightly.night.folder import CACHE, Night, imports_dir
from nightly.night.record_failure import reason_of
from shared.errors import ArchiveDamaged
from shared.system.archive_folder import run_of
from shared.system.faults import crash_point
from shared.system.files import fresh_dir, fsync_dir, remove_tree, sha256_file, write_atomic
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import RecordRefused, Tombstone, Turn, dumps, loads_object, timestamp_of
from shared.wire.keys import MEMORY_PREFIX

#: Next to the segments: where a rewritten one is verified before it replaces the old one; which segments were checked for which tombstones.
STAGE = "erasing"
DONE = "erased.json"
NEEDLES = "erasing.json"

Line = dict[str, Any]


@dataclass(frozen=True)
class Eraser:
    """Decides line by line. `tombstone_runs`: tombstone id → the run that archived it; earlier model-written texts may contain the words."""

    tombstones: list[Tombstone]
    tombstone_runs: dict[str, int]

    def covers(self, turn: Turn) -> bool:
        return any(tombstone.covers(turn) for tombstone in self.tombstones)

    def rewritten(self, line: Line, run: int) -> Line | None:
        """The new line; None for a text that is left out, since it is rewritten when it is needed."""
        if line["kind"] == "text":
            text = WrittenText.from_json(line)
            outdated = any(
                text.is_made_from(tombstone) and run < self.tombstone_runs[tombstone.tombstone_id]
                for tombstone in self.tombstones
            )
            return None if outdated else line
        if line["kind"] in ("turn", "quarantine"):
            return self.erased(RawRecord.from_json(line), run) or line
        return line

    def erased(self, raw: RawRecord, run: int) -> Line | None:
        """What remains of a record, or None if no tombstone covers it."""
        turn = _turn_of(raw)
        if not (self.covers(turn) if turn else self._covers_bytes(raw, run)):
            return None
        left: Line = {"key": None, "chat_id": None, "timestamp": None}
        if turn:
            left = {"key": raw.key.decode("ascii"), "chat_id": turn.chat_id, "timestamp": turn.timestamp}
        return {"kind": "erased", **left, "sha256": raw.sha256}

    def _covers_bytes(self, raw: RawRecord, run: int) -> bool:
        """For bytes that are not a readable turn: whether the key is that of a forgotten turn, or they name a forgotten chat and no later time."""
        return any(
            _names(tombstone, raw, early=run <= self.tombstone_runs[tombstone.tombstone_id])
            for tombstone in self.tombstones
        )


def _turn_of(raw: RawRecord) -> Turn | None:
    try:
        return Turn.parse(raw.key, raw.value) if raw.redis_type == "string" else None
    except RecordRefused:
        return None


def _names(tombstone: Tombstone, raw: RawRecord, *, early: bool) -> bool:
    """`early`: it was archived no later than the tombstone, which decides if it has no readable time."""
    own = re.search(rb'"chat_id"\s*:\s*' + _spelled(tombstone.chat_id) + rb"\s*[,}\s]", raw.value + b" ")
    if tombstone.turn_ids is not None:
        named = any(raw.key == f"{MEMORY_PREFIX}{turn_id}".encode() for turn_id in tombstone.turn_ids)
        return named and (own is not None or b'"chat_id"' not in raw.value)
    if own is None:
        return False
    try:
        said_at = timestamp_of(loads_object(raw.value).get("timestamp"))
    except RecordRefused:
        return early
    return said_at < (tombstone.created_at if tombstone.before is None else tombstone.before)


def _spelled(chat_id: str) -> bytes:
    """A chat id as JSON may spell it: a number, a string, a string in ASCII escapes."""
    forms = {dumps(chat_id), json.dumps(chat_id).encode("ascii"), chat_id.encode("utf-8", "surrogatepass")}
    return b"(?:" + b"|".join(re.escape(form) for form in sorted(forms)) + b")"


class Applied(Protocol):
    """What must be known of the archive: all of it in memory, or its catalog."""

    @property
    def segments(self) -> dict[str, str]: ...

    @property
    def tombstones(self) -> dict[str, Tombstone]: ...

    @property
    def tombstone_runs(self) -> dict[str, int]: ...


def eraser_of(archive: Applied, more: Iterable[Tombstone] = (), run: int = 0) -> Eraser | None:
    """An eraser for all tombstones that erase, including `more`, which are archived by `run`; None if there are none."""
    tombstones, runs = (
        {s.tombstone_id: s for s in (*archive.tombstones.values(), *more) if s.erase},
        archive.tombstone_runs,
    )
    runs = {name: runs.get(name, run) for name in tombstones}
    return Eraser([tombstones[name] for name in sorted(tombstones)], runs) if tombstones else None


def apply(night: Night, archive: Applied) -> dict[str, Any]:
    """Erase what is covered from every file of the night host; returns counts. `archive` is as it is on the disk now."""
    eraser = eraser_of(archive)
    if eraser is None:
        return {}
    remove_tree(night.archive_dir / STAGE)
    tombstones = sorted(tombstone.tombstone_id for tombstone in eraser.tombstones)
    done, needles = _checked(night, tombstones), night.settings.hmem_night_dir / NEEDLES
    segments = archive.segments
    names = [name for name in segments if done.get(name) != segments[name]]
    covered = {name: lines for name in names if (lines := _covered(night.archive_dir / name, eraser))}
    counts: dict[str, Any] = {
        "segments": len(covered),
        "records": 0,
        "texts": 0,
        "vectors": 0,
        "damaged_copies": _remove_damaged(night, archive),
    }
    if covered:
        drop_catalog(night.settings.hmem_night_dir)
        remove_tree(night.settings.hmem_night_dir / LAST)  # an index that was built from it
        counts["vectors"] = _forget_vectors(night, [line for lines in covered.values() for line in lines])
        crash_point("erase:vectors-forgotten")
    texts = [text for lines in covered.values() for line in lines for text in _texts_of(line)]
    if texts:  # needed to scan for what a killed night has already erased
        write_atomic(needles, dumps([*_left_needles(needles), *texts]))
    for name, lines in night.report.track(covered.items(), len(covered), "erase"):
        _rewrite(night.archive_dir, name, eraser)
        crash_point("erase:segment-rewritten")
        written = sum(line["kind"] == "text" for line in lines)
        counts["texts"] += written
        counts["records"] += len(lines) - written
    segments |= {name: sha256_file(night.archive_dir / name) for name in covered}
    write_atomic(night.settings.hmem_night_dir / DONE, orjson.dumps({"tombstones": tombstones, "segments": segments}))
    if found := _left_needles(needles):
        counts["scan"] = _scan(night, found, skip=needles)
        needles.unlink()
    return counts


def _left_needles(path: Path) -> list[str]:
    """Texts to scan for, of this night and of one that was killed; they are deleted after the scan."""
    try:
        texts: list[str] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    return texts


def _texts_of(line: Line) -> list[str]:
    """The words of a person or a model in a line that is erased."""
    if line["kind"] == "text":
        return WrittenText.from_json(line).sayings
    raw = RawRecord.from_json(line)
    turn = _turn_of(raw)
    return [turn.words if turn else raw.value.decode("utf-8", "replace")]


def _scan(night: Night, texts: list[str], skip: Path) -> dict[str, Any]:
    """Scan every file of the night directory for erased words, except this night's folder, whose bulk is removed at the end; counts and places."""
    from shared.system.byte_scan import Needles, own_words, scan

    needles = Needles.of(texts).without(itertools.chain(_remaining(night), own_words()))
    scanned = scan([night.settings.hmem_night_dir], needles, skip=[night.folder, skip])
    return {
        "files": scanned.files,
        "bytes": scanned.bytes,
        "needles": len(needles),
        "said_elsewhere": needles.said_elsewhere,
        "found": [found.place for found in scanned.found],
        "unreadable": scanned.unreadable,
    }


def _remaining(night: Night) -> Iterator[str]:
    """What is still said: the words of each turn, and of each text that was made from some turns."""
    with open_catalog(night) as catalog, ChatReader(catalog, night.archive_dir, night.settings.timezone) as reader:
        for chat_id in catalog.digests():
            for turn in reader.archived(chat_id):
                yield f"{turn.speaker} {turn.words}"
    for text in read_texts(night.archive_dir).texts.values():
        if text.turns:
            yield from text.sayings


def _checked(night: Night, tombstones: list[str]) -> dict[str, str]:
    """Segment → hash, of those that were checked for these tombstones; empty if the record is missing or of other tombstones."""
    try:
        note = orjson.loads((night.settings.hmem_night_dir / DONE).read_bytes())
        segments: dict[str, str] = note["segments"] if note["tombstones"] == tombstones else {}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}
    return segments


def _covered(path: Path, eraser: Eraser) -> list[Line]:
    """The lines of a segment that are to be erased."""
    run = run_of(path.name) or 0
    return [line for line in read_segment(path) if eraser.rewritten(line, run) != line]


def _rewrite(directory: Path, name: str, eraser: Eraser) -> None:
    """Replace the segment by one without the forgotten words; ArchiveDamaged if the new one does not read back correctly."""
    path, run = directory / name, run_of(name) or 0
    original = header_of(path).get("original") or sha256_file(path)
    wanted = [line for old in read_segment(path) if (line := eraser.rewritten(old, run)) is not None]
    staged = fresh_dir(directory / STAGE) / name
    write_segment(staged, run, wanted, kind=header_of(path)["kind"], original=original)
    if list(read_segment(staged)) != wanted:
        raise ArchiveDamaged(
            f"Archive segment {name} could not be rewritten without the forgotten words. Check the disk, then run the night again."
        )
    staged.replace(path)
    fsync_dir(directory)
    remove_tree(staged.parent)


def _forget_vectors(night: Night, lines: list[Line]) -> int:
    """Remove what was derived from these lines from `cache.sqlite`, with the texts of a killed night; returns the number of removed vectors."""
    from nightly.index.vector_cache import forget

    turns = [_turn_of(RawRecord.from_json(line)) for line in lines if line["kind"] != "text"]
    texts = [text for turn in turns if turn for text in _indexed(turn, night.settings.timezone)]
    return forget(night.settings.hmem_night_dir / CACHE, texts, night.report)


def _indexed(turn: Turn, zone: ZoneInfo) -> list[str]:
    """The texts of a turn that were embedded; none for a turn that the chunk step had to skip."""
    try:
        return [indexed_text(chunk, zone) for chunk in chunks_of(turn)]
    except Exception as error:  # noqa: BLE001 - it must stop neither the night nor the forgetting: its words are erased with its line
        reason_of(error)
        return []


def _remove_damaged(night: Night, archive: Applied) -> int:
    """Remove unreadable files that were kept: damaged copies of files that are intact now, imports that failed their hash check."""
    folder = night.archive_dir / DAMAGED
    found = [path for path in folder.iterdir() if path.stem in archive.segments] if folder.is_dir() else []
    found += imports_dir(night.settings).glob("*.bad")
    for path in found:
        path.unlink()
    return len(found)
