"""JSON lines: turns as the wire writes them, and lines of an archive, as `hmem-night export-archive` and the archive itself write them.

A bare turn is archived byte for byte as in its line, under the key of its task id and role. A turn of an archive has its key and its hash, which must
match. The difference: only a bare turn has `content` or `role`. Whatever else an archive has comes along with a copy of it (`hmem restore`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nightly.archive.segments import RawRecord
from nightly.imports.candidates import VERBATIM, Found, ReadCandidate, lines_of
from nightly.imports.containers.opening import Export
from nightly.imports.formats import ImportFormat
from nightly.imports.recognition import first_records
from shared.hooks import hook
from shared.turns.records import ROLES, RecordRefused, Turn, loads_object, task_id_of
from shared.wire import keys

#: First and last line of an archive's files.
_FRAME = ("segment", "texts", "end")
#: What is no turn, all lines of an archive, and what one of them has.
_OTHERS = ("erased", "quarantine", "tombstone", "text", "event")
_KINDS = (*_FRAME, *_OTHERS, "turn")
_OF_KINDS = ({"format", "run"}, {"key", "sha256"}, {"key", "digest"}, {"tombstone"})


def read(path: Path) -> Iterator[ReadCandidate]:
    for number, line, done in lines_of(path):
        yield ReadCandidate.of(done, f"{path}:{number}", partial(_found, line))


def _found(line: bytes) -> Found:
    record = loads_object(line)
    if "content" in record or "role" in record:
        return _bare(line, record)
    if record.get("kind") in _FRAME:
        return None
    if record.get("kind") in _OTHERS:
        return f"{record['kind']}, no turn: a copy of the archive brings it (hmem restore)"
    return _archived(record)


def _bare(line: bytes, record: dict[str, Any]) -> RawRecord:
    role = record.get("role")
    if role not in ROLES:
        raise RecordRefused("role must be user or asst")
    key = keys.turn(task_id_of(record.get("task_id")), role).encode()
    Turn.parse(key, line)
    return RawRecord(key, "string", line)


def _archived(record: dict[str, Any]) -> RawRecord:
    if record.get("kind") != "turn":
        raise RecordRefused("neither a turn nor a line of an archive")
    try:
        return RawRecord.proven(record)
    except (KeyError, TypeError, ValueError) as error:
        why = "a line of an archive lacks a field, has one of another type, or does not match its hash"
        raise RecordRefused(why) from error


def _recognise(export: Export) -> str | None:
    for where, records in first_records(export, "*.jsonl"):
        if any(one.get("role") in ROLES and {"task_id", "content", "timestamp"} <= one.keys() for one in records):
            return f"{where} whose lines are turns, with `task_id`, `role` and `content`"
        if any(one.get("kind") in _KINDS and any(own <= one.keys() for own in _OF_KINDS) for one in records):
            return f"{where} whose lines are those of an archive of this program"
    return None


@hook
def import_formats() -> Sequence[ImportFormat]:
    what = "a file of turns in JSON lines (hmem-night export-archive)"
    return [ImportFormat(VERBATIM, what, lambda _: read, _recognise, "*.jsonl", of_a_chat=True)]
