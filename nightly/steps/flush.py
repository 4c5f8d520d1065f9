"""Flush: delete from Redis what is verified to be safe, by key and by value, and nothing else.

Verification re-reads both disks, for exactly the records to delete: a record's bytes are in an archive segment, and the current release was
built from that segment (same hash in its manifest). With ARCHIVE_MIRROR every file of the archive must be verified there, too; otherwise
nothing is deleted (MirrorFailed).
A key that was rewritten since, or added later, stays for the next night.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
import redis

from nightly.archive.catalog import open_catalog
from nightly.archive.mirror import bring_up_to_date, open_mirror
from nightly.archive.segments import RawRecord, segment_content, segment_lines, stored_records
from nightly.night.folder import Night
from shared.errors import LeaseLost, MirrorFailed, ReleaseRefused
from shared.system.faults import crash_point
from shared.system.files import sha256_bytes
from shared.wire import keys

#: Bounds of one script call, so that Redis is never blocked for long.
BATCH_KEYS = 500
BATCH_BYTES = 4 << 20
#: Lines of a segment that are no records.
OTHERS = ("tombstone", "text")


def run(night: Night, out: Path) -> dict[str, Any]:
    """`mirror_failed` says why nothing was deleted although the night is done: its turns stay in Redis, and the next night finds them archived."""
    del out
    exported = list(stored_records(night.output("export") / "records.jsonl"))
    try:
        mirror = open_mirror(night.settings)
        mirrored = bring_up_to_date(mirror, night.archive_dir) if mirror else None  # texts came after the archive step
    except MirrorFailed as error:
        nothing = {"deleted": 0, "changed_since": 0, "unproven": len(exported)}
        return {"exported": len(exported), **nothing, "mirror_failed": str(error)}
    script = night.redis.register_script((Path(__file__).parent / "flush.lua").read_text(encoding="utf-8"))
    proven = _proven_records(night, exported) if exported else set()
    safe = [record for record in exported if record.sha256 in proven]
    deleted = kept = 0
    for batch in night.report.track(_batches(safe), len(safe) // BATCH_KEYS + 1, "flush"):
        arguments: list[Any] = [night.lease.value]
        for record in batch:
            arguments += [record.redis_type, record.value]
        try:
            gone, changed = cast(list[int], script(keys=[keys.NIGHT_OWNER, *(r.key for r in batch)], args=arguments))
        except redis.ResponseError as error:
            if "FENCED" in str(error):
                raise LeaseLost(
                    "Another night took the lease before the flush; nothing more was deleted. Run the night again."
                ) from error
            raise
        deleted, kept = deleted + gone, kept + changed
        crash_point("flush:batch-deleted")
    last = {"run": night.run, "finished_at": time.time()}
    night.redis.set(keys.NIGHT_LAST, orjson.dumps(last))
    counts = {"deleted": deleted, "changed_since": kept, "unproven": len(exported) - len(safe)}
    return {"exported": len(exported), **counts, "mirrored": mirrored, "mirror_failed": None}


def _proven_records(night: Night, exported: list[RawRecord]) -> set[str]:
    """Hashes of those records that are in segments that the current release was built from. The catalog only says where to look."""
    current = night.target.current()
    if current is None:
        raise ReleaseRefused("There is no current release, so nothing may be deleted. Run the night again.")
    with open_catalog(night) as catalog:
        names = {name for record in exported if (name := catalog.segment_of(record.sha256))}
    proven = set[str]()
    for name in sorted(names):
        path = night.archive_dir / name
        content = segment_content(path)
        if sha256_bytes(content) == current.segments.get(name):
            proven.update(line["sha256"] for _, _, line in segment_lines(path, content) if line["kind"] not in OTHERS)
    return proven


def _batches(records: list[RawRecord]) -> Iterator[list[RawRecord]]:
    batch: list[RawRecord] = []
    size = 0
    for record in records:
        if batch and (len(batch) >= BATCH_KEYS or size + len(record.value) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.value)
    if batch:
        yield batch
