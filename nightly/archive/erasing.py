"""Erasing: what a tombstone with `erase` covers is removed from the night host's files. Part of the archive step, so it precedes every build.

A segment with such a record is rewritten without its words, read back, compared line by line with the old one, and renamed over it.
What remains of a turn is its key, chat and time, which prevent it from being imported again; of anything else, its hash. The new file depends
only on the first one and on what is erased from it, so copies that were erased in several steps end up identical. After a crash some
segments are done; the next run does the rest, and repeating it changes nothing.

For a new tombstone all segments are read. The catalog, which has no words, is made anew when it is opened next. Before the words are removed from
the archive, cached vectors and damaged imports are removed. The indexes of the last night go when those of this night are published, which are made
from what is left of them.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.segments import RawRecord, Segment, WrittenText, event_of, readable_turn, write_segment
from nightly.index.previous import LAST
from nightly.night.failure import reason_of
from nightly.night.folder import CACHE, Night, imports_dir, read_record
from shared.errors import ArchiveDamaged
from shared.system.archive_folder import archive_files, run_of
from shared.system.faults import crash_point
from shared.system.files import fresh_dir, fsync_dir, remove_tree, sha256_file, write_atomic
from shared.turns.chunking import chunks_of, embedded_text
from shared.turns.records import RecordRefused, Tombstone, Turn, dumps, loads_object, timestamp_of
from shared.wire.keys import MEMORY_PREFIX

#: Next to the segments: where a rewritten one is verified before it replaces the old one; which segments were checked for which tombstones.
STAGE = "erasing"
DONE = "erased.json"
NEEDLES = "erasing.json"

#: Erased turns whose vectors are forgotten at once, and texts that are kept to scan for: spread evenly over all of them.
AT_ONCE, MOST_NEEDLES = 2_000, 10_000

Line = dict[str, Any]
#: What remains of a record other than a turn, with its hash.
NOTHING_LEFT: Line = {"kind": "erased", "key": None, "chat_id": None, "timestamp": None}


@dataclass(frozen=True)
class Eraser:
    """Decides line by line. `tombstone_runs`: tombstone id → the run that archived it; earlier model-written texts may contain the words."""

    tombstones: list[Tombstone]
    tombstone_runs: dict[str, int]

    def rewritten(self, line: Line, run: int) -> Line | None:
        """The new line; None for a text that is left out, since it is rewritten when it is needed."""
        if line["kind"] == "text":
            text = WrittenText.from_json(line)
            outdated = any(
                text.is_made_from(tombstone) and run < self.tombstone_runs[tombstone.tombstone_id]
                for tombstone in self.tombstones
            )
            return None if outdated else line
        if line["kind"] == "event":
            covered = any(map(event_of(line).is_covered_by, self.tombstones))
            return NOTHING_LEFT | {"sha256": line["sha256"]} if covered else line
        if line["kind"] in ("turn", "quarantine"):
            return self.erased(RawRecord.from_json(line), run) or line
        return line

    def erased(self, raw: RawRecord, run: int) -> Line | None:
        """What remains of a record, or None if no tombstone covers it."""
        turn = readable_turn(raw)
        covered = any(one.covers(turn) for one in self.tombstones) if turn else self._covers_bytes(raw, run)
        if not covered:
            return None
        left = NOTHING_LEFT | {"sha256": raw.sha256}
        if turn:
            left |= {"key": raw.key.decode("ascii"), "chat_id": turn.chat_id, "timestamp": turn.timestamp}
        return left

    def _covers_bytes(self, raw: RawRecord, run: int) -> bool:
        """For bytes that are not a readable turn: whether the key is that of a forgotten turn, or they name a forgotten chat and no later time."""
        return any(
            _names(tombstone, raw, early=run <= self.tombstone_runs[tombstone.tombstone_id])
            for tombstone in self.tombstones
        )


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


def eraser_of(archive: Catalog, more: Iterable[Tombstone] = (), run: int = 0) -> Eraser | None:
    """An eraser for all tombstones that erase, including `more`, which are archived by `run`; None if there are none."""
    tombstones = {s.tombstone_id: s for s in (*archive.tombstones.values(), *more) if s.erase}
    runs = dict.fromkeys(tombstones, run) | archive.tombstone_runs
    return Eraser([tombstones[name] for name in sorted(tombstones)], runs) if tombstones else None


@dataclass
class Found:
    """What is to be erased: segment -> how many lines of which kind; texts to scan for; vectors that were removed for it."""

    segments: dict[str, Counter[str]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    vectors: int = 0
    _every: int = 1
    _passed: int = 0

    def keep(self, texts: Iterable[str]) -> None:
        """Keep every so many of the texts, so that there are never more than MOST_NEEDLES."""
        for text in texts:
            if self._passed % self._every == 0:
                self.texts.append(text)
            self._passed += 1
            if len(self.texts) > MOST_NEEDLES:
                self.texts, self._every = self.texts[::2], 2 * self._every


def apply(night: Night, archive: Catalog) -> dict[str, Any]:
    """Erase what is covered from every file of the night host; returns counts. `archive` is as it is on the disk now."""
    eraser = eraser_of(archive)
    if eraser is None:
        return {}
    remove_tree(night.archive_dir / STAGE)
    tombstones = [tombstone.tombstone_id for tombstone in eraser.tombstones]  # sorted
    needles, segments = night.settings.hmem_night_dir / NEEDLES, archive.segments
    for unreadable in imports_dir(night.settings).glob("*.bad"):  # imports that failed their hash check
        unreadable.unlink()
    found = _find(night, _to_read(night, segments, tombstones), eraser)
    crash_point("erase:vectors-forgotten")
    if found.texts:  # needed to scan for what a killed night has already erased
        write_atomic(needles, dumps({"texts": [*_left_needles(needles), *found.texts]}))
    for name in night.report.track(found.segments, len(found.segments), "erase"):
        _rewrite(night.archive_dir, name, eraser)
        crash_point("erase:segment-rewritten")
    segments |= {name: sha256_file(night.archive_dir / name) for name in found.segments}
    write_atomic(night.settings.hmem_night_dir / DONE, orjson.dumps({"tombstones": tombstones, "segments": segments}))
    kinds = sum(found.segments.values(), Counter[str]())
    counts: dict[str, Any] = {
        "segments": len(found.segments),
        "records": kinds.total() - kinds["text"],
        "texts": kinds["text"],
        "vectors": found.vectors,
    }
    if left := _left_needles(needles):
        counts["scan"] = _scan(night, left, skip=[night.folder, needles, night.settings.hmem_night_dir / LAST])
        needles.unlink()
    return counts


def drop_other_indexes(night: Night, run: int | None) -> None:
    """Remove the kept indexes of other runs, which may have what was erased. `run`: whose release has none of it. Its own indexes may not be
    kept: they could not be stored, or another night host made that release."""
    base = night.settings.hmem_night_dir / LAST
    for path in list(base.iterdir()) if base.is_dir() else []:
        if path.name != str(run):
            remove_tree(path)


def _to_read(night: Night, segments: Mapping[str, str], tombstones: list[str]) -> list[str]:
    """The segments that were not checked, as they are now, for exactly these tombstones."""
    note = read_record(night.settings.hmem_night_dir / DONE) or {}
    checked = note.get("segments", {}) if note.get("tombstones") == tombstones else {}
    return [name for name, sha256 in segments.items() if checked.get(name) != sha256]


def _find(night: Night, names: list[str], eraser: Eraser) -> Found:
    """What these segments have to erase. Its vectors are removed here: they are derived from it."""
    found, turns = Found(), list[Turn]()
    for name in night.report.track(names, len(names), "look for forgotten turns"):
        run, segment = run_of(name) or 0, Segment(night.archive_dir / name)
        for line in segment:
            if eraser.rewritten(line, run) == line:
                continue
            found.segments.setdefault(name, Counter())[line["kind"]] += 1
            found.keep(_texts_of(line))
            if line["kind"] not in ("text", "event") and (turn := readable_turn(RawRecord.from_json(line))):
                turns.append(turn)
            if len(turns) >= AT_ONCE:
                found.vectors += _forget_vectors(night, turns)
                turns.clear()
    if found.segments:
        found.vectors += _forget_vectors(night, turns)
    return found


def _left_needles(path: Path) -> list[str]:
    """Texts to scan for, of this night and of one that was killed; they are deleted after the scan."""
    return list((read_record(path) or {}).get("texts", ()))


def _texts_of(line: Line) -> list[str]:
    """The words of a person or a model in a line that is erased."""
    if line["kind"] == "text":
        return WrittenText.from_json(line).sayings
    if line["kind"] == "event":
        return event_of(line).texts
    raw = RawRecord.from_json(line)
    turn = readable_turn(raw)
    return [turn.words if turn else raw.value.decode("utf-8", "replace")]


def _scan(night: Night, texts: list[str], skip: list[Path]) -> dict[str, Any]:
    """Scan the files of the night directory for erased words; counts and places. `skip`: this night's folder, whose bulk is removed at the end, and
    indexes that go when new ones are published."""
    from shared.system.byte_scan import Needles, own_words, scan

    needles = Needles.of(texts).without(itertools.chain(_remaining(night), own_words()))
    scanned = scan([night.settings.hmem_night_dir], needles, skip=skip)
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
    with open_catalog(night) as catalog, ChatReader(catalog, night.archive_dir) as reader:
        for chat_id in catalog.digests():
            for turn in reader.archived(chat_id):
                yield f"{turn.speaker} {turn.words}"
    for _, name in archive_files(night.archive_dir):
        for line in Segment(night.archive_dir / name):
            if line["kind"] == "event":
                yield from event_of(line).texts
            elif line["kind"] == "text" and (text := WrittenText.from_json(line)).turns:
                yield from text.sayings


def _rewrite(directory: Path, name: str, eraser: Eraser) -> None:
    """Replace the segment by one without the forgotten words; ArchiveDamaged if the new one does not read back correctly."""
    old, run = Segment(directory / name), run_of(name) or 0

    def left() -> Iterator[Line]:
        return (line for one in old if (line := eraser.rewritten(one, run)) is not None)

    staged = fresh_dir(directory / STAGE) / name
    write_segment(staged, run, left(), kind=old.header["kind"], original=old.original or old.sha256)
    if any(written != wanted for written, wanted in itertools.zip_longest(Segment(staged), left())):
        raise ArchiveDamaged(
            f"Archive segment {name} could not be rewritten. Check the disk, then run the night again."
        )
    staged.replace(directory / name)
    fsync_dir(directory)
    remove_tree(staged.parent)


def _forget_vectors(night: Night, turns: list[Turn]) -> int:
    """Remove what was derived from these turns from `cache.sqlite`; returns the number of removed vectors."""
    from nightly.index.vector_cache import forget

    texts = (text for turn in turns for text in _embedded(turn))
    return forget(night.settings.hmem_night_dir / CACHE, texts, night.report.say)


def _embedded(turn: Turn) -> list[str]:
    """The texts of a turn that were embedded; none for a turn that the chunk step had to skip."""
    try:
        return [embedded_text(chunk) for chunk in chunks_of(turn)]
    except Exception as error:  # noqa: BLE001 - it must stop neither the night nor the forgetting: its words are erased with its line
        reason_of(error)
        return []
