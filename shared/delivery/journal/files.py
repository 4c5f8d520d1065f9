"""The files of a journal: its id, and segments of lines, each named by the number of its first entry.

journal.json                    its id and format
day-000000000001.jsonl …        lines in order; the last segment grows, older ones go when it has been rewritten
store-000000000042-….sqlite     a copy of the day store, by its count of changes and its id
store-other-….sqlite            the copy of another day store, which was in use before
store-damaged-….sqlite          a copy that could not be read
keyring.json                    with encryption: the keys, which only the owner's key opens
announced.json                  on another host: which host has sent last, and which sending that was
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from shared.delivery.journal.entries import JournalEntry, entry_of
from shared.wire.json import RecordRefused, loads_object

ID, FORMAT = "journal.json", 1
KEYRING = "keyring.json"
_SEGMENT = re.compile(r"day-([0-9]{12,15})\.jsonl\Z")
#: The end of a segment in which the last number is looked for first, in bytes.
_TAIL_BYTES = 1 << 20
_BASE = re.compile(r"store-([0-9]{12,15})(?:-([0-9a-f]{8}))?\.sqlite\Z")
_ASIDE = re.compile(r"store-(other|damaged)-([0-9]{12,15})(?:-([0-9a-f]{8}))?\.sqlite\Z")
#: The version of a day store is its id (0: from before stores had one) in front of its count of changes, which has 31 bits.
COUNTS = 2**32
OTHER, DAMAGED = "other", "damaged"


def segment_name(first: int) -> str:
    return f"day-{first:012d}.jsonl"


def base_name(version: int) -> str:
    store, count = divmod(version, COUNTS)
    return f"store-{count:012d}-{store:08x}.sqlite"


def aside_name(why: str, version: int) -> str:
    """Of a copy that is kept, and not used."""
    return base_name(version).replace("store-", f"store-{why}-")


def segments(folder: Path) -> list[Path]:
    """In order of their entries. OSError if the directory cannot be read."""
    return sorted((path for path in folder.iterdir() if _SEGMENT.match(path.name)), key=_number)


def bases(folder: Path) -> list[tuple[int, Path]]:
    """(version, copy of the day store), the newest last."""
    found = ((_BASE.match(path.name), path) for path in folder.iterdir())
    return sorted((int(one[2] or "0", 16) * COUNTS + int(one[1]), path) for one, path in found if one)


def asides(folder: Path) -> list[tuple[str, int, Path]]:
    """(why, version, copy of a day store) of each that is kept, and not used."""
    found = ((_ASIDE.match(path.name), path) for path in folder.iterdir())
    return sorted((one[1], int(one[3] or "0", 16) * COUNTS + int(one[2]), path) for one, path in found if one)


def _number(path: Path) -> int:
    found = _SEGMENT.match(path.name)
    return int(found[1]) if found else 0


def journal_id(folder: Path) -> str | None:
    """The journal's id; None if there is no journal of a format that this program knows."""
    try:
        record = loads_object((folder / ID).read_bytes())
    except (OSError, RecordRefused):
        return None
    found = record.get("journal")
    return found if isinstance(found, str) and record.get("format") == FORMAT else None


def entries_of(path: Path, offset: int = 0) -> Iterator[tuple[JournalEntry | None, int]]:
    """(entry, offset after it) of each whole line from `offset` on; None for a damaged line. A line without an end is left for later."""
    with path.open("rb") as handle:
        handle.seek(offset)
        for line in handle:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield entry_of(line[:-1]), offset


def end_of(path: Path) -> tuple[int, bool]:
    """Of a segment: (number of the last entry, whether the last line has its end). An empty segment ends before its first number."""
    size = path.stat().st_size
    with path.open("rb") as handle:
        handle.seek(max(0, size - _TAIL_BYTES))
        tail = handle.read()
    whole = not tail or tail.endswith(b"\n")
    if size > _TAIL_BYTES:
        tail = tail.partition(b"\n")[2]
    for line in reversed(tail.splitlines()):
        if entry := entry_of(line):
            return entry.number, whole
    numbers = [entry.number for entry, _ in entries_of(path) if entry]
    return max(numbers, default=_number(path) - 1), whole


def last_number(folder: Path) -> int:
    """Number of the newest entry; 0 if there is none. OSError if it cannot be read."""
    found = segments(folder)
    return end_of(found[-1])[0] if found else 0
