"""Archive: exported records that are not archived yet go into one new segment, which is read back from the disk.

Each record is a turn, or it is quarantined: stored with its bytes and the reason, so that it can be deleted from Redis without loss. The
counts must add up (exported = new + new version + already archived + quarantined), or the night stops here. What older segments contain is
known from the catalog (nightly/archive/catalog.py).

What a tombstone with `erase` covers is written without its words. Then it is removed from older segments too (nightly/archive/erasing.py).

With ARCHIVE_MIRROR the new segment is copied there too. An unavailable mirror is a warning: memory is published anyway, and flush deletes
nothing before the mirror is verified. A mirror with more or different files than the archive stops the night: something was lost.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from nightly.archive import erasing
from nightly.archive.capture import empty
from nightly.archive.catalog import Catalog, open_catalog
from nightly.archive.incoming import EVENTS, RECORDS, TOMBSTONES, Judged, exported, judge
from nightly.archive.media.bring import MediaBringer
from nightly.archive.media.places import erase as erase_media
from nightly.archive.media.places import is_forgotten, is_intact, listed
from nightly.archive.mirror import Mirror, MirrorDiffers, bring_up_to_date, missing_there, open_mirror
from nightly.archive.segments import RawRecord, parse_turn, segment_name, write_segment
from nightly.imports.staging import clear
from nightly.night.folder import Night, last_result
from nightly.night.ledger import Ledger
from shared.errors import LedgerMismatch, MirrorFailed
from shared.release.integrity import is_due
from shared.system.faults import crash_point
from shared.system.files import make_dir
from shared.turns.events import Event
from shared.turns.records import RecordRefused, Tombstone


def run(night: Night, out: Path) -> dict[str, Any]:
    make_dir(night.archive_dir)
    # Before the first write: a host that has lost its archive must not start a new one next to the mirror.
    mirror = _if_reachable(night, lambda mirror: {"lacks": len(missing_there(mirror, night.archive_dir))})
    with open_catalog(night, before=night.run, scrub=True) as earlier:
        received = (record.value for record in exported(night, TOMBSTONES))
        judged = judge(received, night.settings, earlier.tombstones)
        tombstones = _new_tombstones(earlier, judged)
        ledger, new = _write(night, earlier, tombstones)
    crash_point("archive:segment-written")
    empty(night.archive_dir)
    with open_catalog(night) as archive:
        _prove(archive, exported(night))
        erased = erasing.apply(night, archive)
    with open_catalog(night) as archive:
        if erased.get("segments"):
            _prove(archive, exported(night))
        media = _media(night, archive, out)
        found = {"segments": archive.segments, "turns": archive.all_turns, "originals": archive.originals}
    if mirror and "error" not in mirror:
        mirror = _if_reachable(night, lambda mirror: {"proven": bring_up_to_date(mirror, night.archive_dir)})
    crash_point("archive:mirrored")
    clear(night)
    return {
        "ledger": ledger.to_json(night.result("export")["records"]),
        "new_records": new["records"],
        "new_events": new["events"],
        "new_tombstones": len(tombstones),
        "refused_tombstones": dict(judged.refused),
        "only_hiding_tombstones": judged.only_hide,
        **found,
        "erased": erased,
        "media": media,
        "mirror": mirror,
    }


def _media(night: Night, archive: Catalog, out: Path) -> dict[str, Any]:
    """What became of the files of messages, when all turns are archived, and erased where they are to be; and which of the old ones are not what
    they were."""
    erased = erase_media(night.archive_dir, archive)
    brought = MediaBringer(night, archive).bring(exported(night, RECORDS), out)
    files = list(listed(night.archive_dir))
    before = {*last_result(night, "archive").get("media", {}).get("damaged", ())}  # it is named until it is repaired
    read = [path for path in files if path in before or is_due(path, night.run)]
    damaged = [path for path in read if not is_intact(night.archive_dir, path)]
    damaged += sorted(path for path in before - {*files} if not is_forgotten(archive, path))
    return brought | {"erased": erased, "damaged": damaged, "files": len(files)}


def _if_reachable(night: Night, ask: Callable[[Mirror], dict[str, Any]]) -> dict[str, Any] | None:
    """What the mirror answers, None without one, or the reason why it is not reachable: tonight's memory need not wait for a disk."""
    mirror = open_mirror(night.settings)
    try:
        return ask(mirror) if mirror else None
    except MirrorDiffers:
        raise
    except MirrorFailed as error:
        night.report.say(f"  Warning: {error} Until then nothing is deleted from Redis.")
        return {"error": str(error)}


def _write(night: Night, earlier: Catalog, tombstones: list[Tombstone]) -> tuple[Ledger, Counter[str]]:
    """Write the segment: a line of each new record and event, and these tombstones; what became of all records, and how many lines there are of
    each. Nothing is written where there is no line, or where a killed attempt of this run has written it already."""
    ledger, new, eraser = Ledger(), Counter[str](), erasing.eraser_of(earlier, tombstones, night.run)

    def lines() -> Iterator[dict[str, Any] | None]:
        made = chain(
            (("records", _classify(record, earlier, ledger)) for record in exported(night, RECORDS)),
            (("events", _event_line(record, earlier)) for record in exported(night, EVENTS)),
        )
        for what, line in made:
            if line:
                new[what] += 1
                yield eraser.rewritten(line, night.run) if eraser else line
        yield from ({"kind": "tombstone", "tombstone": orjson.loads(one.to_json())} for one in tombstones)

    path, left = night.archive_dir / segment_name(night.run), lines()
    if (first := next(left, None)) and not path.exists():
        write_segment(path, night.run, chain([first], filter(None, left)))
    deque(left, 0)
    return ledger, new


def _classify(record: RawRecord, earlier: Catalog, ledger: Ledger) -> dict[str, Any] | None:
    """The archive's line for a record, or None if it is archived already."""
    try:
        turn = parse_turn(record, earlier.owner_of)
    except RecordRefused as error:
        known = earlier.segment_of(record.sha256) is not None
        ledger.count("?", "already_archived" if known else "quarantined")
        if known:
            return None
        ledger.reasons[str(error)] += 1
        return {"kind": "quarantine", **record.to_json(), "reason": str(error)}
    last = earlier.last_version(turn.turn_id)
    same = last == record.sha256 if last else earlier.segment_of(record.sha256) is not None  # erased
    if same:  # an older version that comes back is a new version: it is the latest one
        ledger.count(turn.chat_id, "already_archived")
        return None
    ledger.count(turn.chat_id, "new_version" if last else "new")
    return {"kind": "turn", **record.to_json()}


def _event_line(record: RawRecord, earlier: Catalog) -> dict[str, Any] | None:
    """The archive's line for an exported event; None if it is archived already."""
    if earlier.segment_of(record.sha256) is not None:
        return None
    try:
        if record.redis_type != "string":
            raise RecordRefused(f"the key is a {record.redis_type}, not a string")
        Event.parse(record.key, record.value)
    except RecordRefused as error:
        return {"kind": "quarantine", **record.to_json(), "reason": str(error)}
    return {"kind": "event", **record.to_json()}


def _new_tombstones(earlier: Catalog, judged: Judged) -> list[Tombstone]:
    """The tombstones not archived yet; of two under one id that which erases."""
    tombstones, archived = dict[str, Tombstone](), earlier.tombstones
    for tombstone in judged.obeyed:
        known = tombstones.get(tombstone.tombstone_id) or archived.get(tombstone.tombstone_id)
        if known is None or (tombstone.erase and not known.erase):  # it was archived as one that only hides
            tombstones[tombstone.tombstone_id] = tombstone
    return list(tombstones.values())


def _prove(archive: Catalog, exported: Iterable[RawRecord]) -> None:
    """Find every exported record in the segments on the disk: the new one was read whole, the others are as they were when they were read."""
    missing = sum(archive.segment_of(record.sha256) is None for record in exported)
    if missing:
        raise LedgerMismatch(f"{missing} exported records are not in the archive. Nothing was deleted; report this.")
