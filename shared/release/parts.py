"""Which files of an index in parts the next index reuses: small ones of one size are merged once there are FANOUT of them.

This is the tiered merging of log-structured stores and of Lucene (O'Neil et al., "The Log-Structured Merge-Tree", 1996): from LEAST_ROWS rows on
a row is written again once a level, so log_8(n / 512) times, and below that the small parts are, every seventh night; most nights write,
and send, what is new and nothing else. A part is never changed: it is in the next index too, as the same file, or it is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.errors import StorageError
from shared.system.files import make_dir

#: Parts of one level that become one of the next, and the rows below which all parts are of the lowest level.
FANOUT, LEAST_ROWS = 8, 4096
SUFFIX = ".sqlite"
#: What the name of a part looks like (`new_part`).
PART = r"[0-9]{1,9}(?:-[0-9]{1,9})?\.sqlite"


@dataclass(frozen=True)
class Earlier:
    """Parts (file names) of a verified, unmodified index of an earlier night that a new one reuses: its builder is given only what they do not
    hold. Its files are never written to again."""

    path: Path
    parts: tuple[str, ...]


def level(rows: int) -> int:
    """0 below LEAST_ROWS; then one more each time it grows by FANOUT."""
    found = 0
    while rows >= LEAST_ROWS:
        rows //= FANOUT
        found += 1
    return found


def absorbed(rows: Mapping[str, int], new: int) -> set[str]:
    """Which parts, with these numbers of rows, are merged with `new` rows into one; none if nothing is new."""
    gone = set[str]()
    size = new
    while new:
        same = {name for name, count in rows.items() if name not in gone and level(count) <= level(size)}
        if len(same) < FANOUT - 1:
            break
        gone |= same
        size += sum(rows[name] for name in same)
    return gone


def part_files(place: Path) -> list[Path]:
    """The parts in the order in which they were made; of an index that is one file, that one."""
    return [place] if place.is_file() else sorted(place.glob(f"*{SUFFIX}"), key=_made)


def _made(path: Path) -> tuple[int, int, str]:
    run, _, attempt = path.stem.partition("-")
    return int(run) if run.isdecimal() else 0, int(attempt) if attempt.isdecimal() else 0, path.name


def new_part(place: Path, run: int) -> Path:
    """A name for the part that this run writes: `<run>.sqlite`, unless a reused part has that name (the night was built twice)."""
    path, attempt = place / f"{run}{SUFFIX}", 1
    while path.exists():
        attempt += 1
        path = place / f"{run}-{attempt}{SUFFIX}"
    return path


def begin(place: Path, earlier: Earlier | None) -> None:
    """The directory of a new index, with the parts of the earlier one in it."""
    make_dir(place)
    if earlier:
        for name in earlier.parts:
            take_over(earlier.path / name, place)


def take_over(part: Path, place: Path) -> None:
    """Link the file into the new index; neither is written to again."""
    try:
        os.link(part, place / part.name)
    except OSError as error:
        raise StorageError(
            f"{part} could not be linked into {place}: {error}. Check the disk, then run the night again."
        ) from error
