"""Flush: delete from Redis what is verified to be safe, by key and by value, and nothing else.

Verification re-reads both disks, for exactly the records to delete: a record's bytes are in an archive segment, and the current release was
built from that segment (same hash in its manifest). With ARCHIVE_MIRROR every file of the archive must be verified there, too; otherwise
nothing is deleted (MirrorFailed).
A key that was rewritten since, or added later, stays for the next night. The files of messages go last (nightly/archive/media/flushing.py).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import orjson

from nightly.archive.catalog import open_catalog
from nightly.archive.incoming import exported
from nightly.archive.media.flushing import flush_media, mirror_media
from nightly.archive.mirror import bring_up_to_date, open_mirror
from nightly.archive.segments import RawRecord, Segment
from nightly.imports.staging import hand_over_facts
from nightly.night.folder import Night, scratch_database
from nightly.night.lease import fenced
from shared.errors import MirrorFailed, ReleaseRefused
from shared.system.faults import crash_point
from shared.text.format import in_batches
from shared.wire import keys

#: Bounds of one script call, so that Redis is never blocked for long.
BATCH_KEYS, BATCH_BYTES = 500, 4 << 20
#: As so many bytes each record counts at least.
SMALLEST_BYTES = -(-BATCH_BYTES // BATCH_KEYS)
#: Seconds after which the current release is looked at again.
CURRENT_SECONDS = 5.0
#: While the step runs: hashes of the exported records, and whether their bytes were found.
PROVEN = "proven.sqlite"
#: Lines of a segment other than records.
OTHERS = ("tombstone", "text")


def run(night: Night, out: Path) -> dict[str, Any]:
    """`mirror_failed` says why nothing was deleted although the night is done: its turns stay in Redis, and the next night finds them archived."""
    count, facts = sum(1 for _ in exported(night)), hand_over_facts(night)
    try:
        mirror = open_mirror(night.settings)
        mirrored = bring_up_to_date(mirror, night.archive_dir) if mirror else None  # texts came after the archive step
        media = mirror_media(night, mirror) if mirror else None
    except MirrorFailed as error:
        nothing = {"deleted": 0, "changed_since": 0, "unproven": count}
        return {"exported": count, "facts": facts, **nothing, "mirror_failed": str(error)}
    script = night.redis.register_script((Path(__file__).parent / "flush.lua").read_text(encoding="utf-8"))
    deleted = kept = safe = 0
    served = _Served(night)
    if served.release is None and count:
        raise ReleaseRefused("There is no current release, so nothing may be deleted. Run the night again.")
    records = _safe(night, out, served.release.segments if served.release else {})
    batches = in_batches(records, BATCH_BYTES, lambda record: max(len(record.value), SMALLEST_BYTES))
    for batch in night.report.track(batches, count // BATCH_KEYS + 1, "flush"):
        served.refuse_another()
        safe += len(batch)
        arguments: list[Any] = [night.lease.value]
        for record in batch:
            arguments += [record.redis_type, record.value]
        with fenced():
            names: list[Any] = [keys.NIGHT_OWNER, *(r.key for r in batch)]
            gone, changed = cast(list[int], script(keys=names, args=arguments))
        deleted, kept = deleted + gone, kept + changed
        crash_point("flush:batch-deleted")
    files = flush_media(night, media)
    last = {"run": night.run, "finished_at": time.time()}
    night.redis.set(keys.NIGHT_LAST, orjson.dumps(last))
    counts = {"deleted": deleted, "changed_since": kept, "unproven": count - safe}
    return {"exported": count, "facts": facts, **counts, "media": files, "mirrored": mirrored, "mirror_failed": None}


class _Served:
    """The release whose segments are proven. The owner may go back to another one while the step runs."""

    def __init__(self, night: Night) -> None:
        self._night, self.release, self._asked_at = night, night.target.current(), time.monotonic()

    def refuse_another(self) -> None:
        """ReleaseRefused if another release is current; asked every CURRENT_SECONDS, since the day host may be far away."""
        if time.monotonic() - self._asked_at < CURRENT_SECONDS:
            return
        current, self._asked_at = self._night.target.current(), time.monotonic()
        if current != self.release:
            raise ReleaseRefused(
                "Another release became current while turns were deleted from Redis (a rollback?), so no more were. "
                "They are archived; a later night deletes them."
            )


def _safe(night: Night, out: Path, served: Mapping[str, str]) -> Iterator[RawRecord]:
    """Those of the exported records that are in segments which the current release was built from (`served`: name → sha256)."""
    schema = "CREATE TABLE exported (sha256 TEXT PRIMARY KEY, proven INTEGER NOT NULL) WITHOUT ROWID"
    with closing(scratch_database(out / PROVEN, schema)) as known:
        for name in sorted(_segments_to_read(night, known)):
            segment = Segment(night.archive_dir / name)
            if segment.sha256 != served.get(name):
                continue
            hashes = ((line["sha256"],) for line in segment if line["kind"] not in OTHERS)
            known.executemany("UPDATE exported SET proven = 1 WHERE sha256 = ?", hashes)
        for record in exported(night):
            if known.execute("SELECT 1 FROM exported WHERE sha256 = ? AND proven", (record.sha256,)).fetchone():
                yield record
    (out / PROVEN).unlink()


def _segments_to_read(night: Night, known: sqlite3.Connection) -> set[str]:
    """Note what was exported; the segments that have it. The catalog only says where to look."""
    names = set[str]()
    with open_catalog(night) as catalog:
        for record in exported(night):
            known.execute("INSERT OR IGNORE INTO exported VALUES (?, 0)", (record.sha256,))
            if name := catalog.segment_of(record.sha256):
                names.add(name)
    return names
