"""The capture: what Redis has and no segment, in one more file of the archive, as often as a timer likes (`hmem-night capture`).

    archive/capture.jsonl     in the format of a segment (nightly/archive/segments.py), of the kind "capture"

Each capture takes the place of the one before, and keeps what only that one has. So a Redis that is lost in between costs nothing: the night exports
what only the capture has, writes its one segment, and leaves an empty capture. Nothing is built and nothing is deleted from Redis.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import orjson
from redis import Redis

from nightly.archive.catalog import Catalog
from nightly.archive.incoming import chat_states, event_keys, in_batches, read_records, read_tombstones, turn_keys
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
    with (
        night_lock(settings),
        connect(settings) as client,
        tempfile.TemporaryFile(dir=make_dir(archive).parent) as spool,
    ):
        with closing(Catalog(settings.hmem_night_dir, report.say)) as known:
            known.refresh()
            counts = _spool(client, archive, known, spool)
        write_segment(archive / CAPTURE, None, _lines(spool), kind="capture")
        if mirror:
            mirror.supersede(archive, [CAPTURE])
    return counts | {"mirrored": mirror is not None}


def _spool(client: Redis, archive: Path, known: Catalog, spool: IO[bytes]) -> dict[str, int]:
    """Write the lines of the capture; how many of which kind."""
    batches = [*in_batches(turn_keys(client)), *in_batches(event_keys(client))]
    present = set(itertools.chain.from_iterable(batches))
    read = (record for batch in batches for record in read_records(client, batch))
    counts = {"records": 0, "tombstones": 0}
    for record in itertools.chain(read, chat_states(client, known), read_tombstones(client)):
        present.add(record.key)
        _add(record, known, spool, counts)
    for record in only_captured(archive, present, known):
        _add(record, known, spool, counts)
    return counts


def _add(record: RawRecord, known: Catalog, spool: IO[bytes], counts: dict[str, int]) -> None:
    if known.segment_of(record.sha256) is None:
        spool.write(orjson.dumps({"kind": "captured", **record.to_json()}) + b"\n")
        counts["tombstones" if record.key == keys.TOMBSTONES.encode() else "records"] += 1


def _lines(spool: IO[bytes]) -> Iterator[Record]:
    spool.seek(0)
    return map(orjson.loads, spool)


def captured(archive: Path) -> Iterator[RawRecord]:
    """The records in the capture, tombstones under the key of their list; ArchiveDamaged if it is not whole."""
    path = archive / CAPTURE
    yield from map(RawRecord.from_json, Segment(path)) if path.exists() else ()


def only_captured(archive: Path, present: Iterable[bytes], known: Catalog) -> Iterator[RawRecord]:
    """What the capture has, and neither Redis nor a segment. `present`: the keys in Redis, whose values are newer."""
    there = frozenset(present)
    for record in captured(archive):
        if record.key not in there and known.segment_of(record.sha256) is None:
            yield record


def empty(archive: Path) -> None:
    """Leave an empty capture in the place of one that a segment has now."""
    if any(True for _ in captured(archive)):
        write_segment(archive / CAPTURE, None, [], kind="capture")
