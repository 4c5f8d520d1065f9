"""The capture: what Redis has and no segment, in one more file of the archive, as often as a timer likes (`hmem-night capture`).

    archive/capture.jsonl     in the format of a segment (nightly/archive/segments.py), of the kind "capture"

Each capture takes the place of the one before, and keeps what only that one has. So a Redis that is lost in between costs nothing: the night exports
what only the capture has, writes its one segment, and leaves an empty capture. Nothing is built and nothing is deleted from Redis.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from redis import Redis

from nightly.archive.catalog import Catalog
from nightly.archive.incoming import chat_states, event_keys, read_records, read_tombstones, turn_keys
from nightly.archive.mirror import open_mirror
from nightly.archive.segments import RawRecord, Record, Segment, write_segment
from nightly.night.lease import connect, night_lock
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.system.archive_folder import CAPTURE
from shared.system.files import make_dir
from shared.wire import keys


def capture(settings: Settings, report: Reporter) -> dict[str, Any]:
    """Write the capture, also to ARCHIVE_MIRROR; returns counts. NightRunning while a night runs, which archives the same."""
    archive = settings.hmem_night_dir / "archive"
    mirror = open_mirror(settings)
    counts = {"records": 0, "tombstones": 0}
    with night_lock(settings), connect(settings) as client:
        with closing(Catalog(settings.hmem_night_dir, report.say)) as known:
            known.refresh()
            records = waiting_records(client, make_dir(archive), known, report)
            write_segment(archive / CAPTURE, None, _lines(records, known, counts), kind="capture")
        if mirror:
            mirror.supersede(archive, [CAPTURE])
    return counts | {"mirrored": mirror is not None}


def _lines(records: Iterable[RawRecord], known: Catalog, counts: dict[str, int]) -> Iterator[Record]:
    """The lines of the new capture; counts them."""
    for record in records:
        if known.segment_of(record.sha256) is None:
            counts["tombstones" if record.key == keys.TOMBSTONES.encode() else "records"] += 1
            yield {"kind": "captured", **record.to_json()}


def waiting_records(client: Redis, archive: Path, known: Catalog, report: Reporter) -> Iterator[RawRecord]:
    """What is in Redis for the archive, tombstones under the key of their list; then what the capture has, and neither Redis, whose values are newer,
    nor a segment."""
    turns, events = turn_keys(client), event_keys(client)
    present = {*turns, *events}
    for names in (turns, events):  # each has rights of its own
        yield from report.track(read_records(client, names), len(names), "read")
    for record in itertools.chain(chat_states(client, known), read_tombstones(client)):
        present.add(record.key)
        yield record
    for record in captured(archive):
        if record.key not in present and known.segment_of(record.sha256) is None:
            yield record


def captured(archive: Path) -> Iterator[RawRecord]:
    """The records in the capture, tombstones under the key of their list; ArchiveDamaged if it is not whole."""
    path = archive / CAPTURE
    yield from map(RawRecord.from_json, Segment(path)) if path.exists() else ()


def empty(archive: Path) -> None:
    """Leave an empty capture in the place of one that a segment has now."""
    if any(True for _ in captured(archive)):
        write_segment(archive / CAPTURE, None, [], kind="capture")
