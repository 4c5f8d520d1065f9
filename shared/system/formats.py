"""The formats of what outlives a version of this program: which are there, which this program reads, and who wrote a newer one.

Each directory that a setting names has a `format.json`, and Redis has one key: one number for everything in there that has no version of its own.
Who writes in a place claims it first (`claim`): a newer format is refused before anything is changed. Files with a version of their own (manifests,
segments, the day store, …) are refused by their readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from shared.config.installation import version
from shared.errors import FormatNewer
from shared.system.files import PRIVATE, Modes, read_own, write_atomic

if TYPE_CHECKING:
    from shared.config.settings import Settings

#: In each of our directories.
NAME = "format.json"
#: Setting → the format of its directory. Raise one when an earlier program would misread what this one writes there.
FORMATS: Mapping[str, int] = {"hmem_state_dir": 1, "hmem_memory_dir": 1, "hmem_night_dir": 1}
#: The same of all values in Redis that are ours alone (`hcli:mem:…`).
REDIS_FORMAT = 1


class FoundFormat(NamedTuple):
    """`program`: the version that wrote it, "" if unknown; `release`: of Redis, the format of releases that the dispatcher reads."""

    number: int
    program: str
    release: int | None = None


def read_format(directory: Path) -> FoundFormat | None:
    """What a directory's record says; None if there is none, or this user may not read it."""
    try:
        return parse(read_own(directory / NAME))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def parse(raw: bytes | None) -> FoundFormat | None:
    """A record from its bytes; None for none, and for one that is damaged."""
    try:
        record = orjson.loads(raw or b"null")
        number, program, release = record["format"], record.get("program"), record.get("release")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if type(number) is not int:
        return None
    shown = program[:40] if isinstance(program, str) else ""
    return FoundFormat(number, shown, release if type(release) is int else None)


def refuse_newer(place: str, found: FoundFormat | None, reads: int) -> None:
    """FormatNewer if a place has a format that this program does not know."""
    if found is None or found.number <= reads:
        return
    by = f"hcli-memory {found.program}" if found.program else "a newer hcli-memory"
    raise FormatNewer(
        f"{place} has format {found.number}, which {by} wrote; this program ({version()}) reads formats up to {reads}, so it "
        f"changed nothing. Install {by}{' or a newer one' if found.program else ''} here, too."
    )


def refuse_newer_directories(settings: Settings) -> None:
    """The same for each directory of the settings that this user may read."""
    for setting, reads in FORMATS.items():
        directory: Path = getattr(settings, setting)
        refuse_newer(str(directory), read_format(directory), reads)


def claim(directory: Path, setting: str, modes: Modes = PRIVATE) -> None:
    """Before this program writes in a directory, which exists: refuse a newer format, and record ours."""
    found, ours = read_format(directory), FORMATS[setting]
    refuse_newer(str(directory), found, ours)
    if found is None or found.number != ours:
        write_atomic(directory / NAME, record(ours), modes)


def claim_redis(raw: bytes | None, release: int) -> bytes | None:
    """What to write under Redis' key, in place of `raw`, or None; FormatNewer. `release`: the format of releases that this program reads."""
    found, ours = parse(raw), FoundFormat(REDIS_FORMAT, version(), release)
    refuse_newer_redis(raw)
    return None if found == ours else record(REDIS_FORMAT, release)


def refuse_newer_redis(raw: bytes | None) -> None:
    """FormatNewer if Redis has values that this program does not know."""
    refuse_newer("Redis (REDIS_URL)", parse(raw), REDIS_FORMAT)


def record(number: int, release: int | None = None) -> bytes:
    """The bytes of a record of this program."""
    more = {} if release is None else {"release": release}
    return orjson.dumps({"format": number, "program": version(), **more}) + b"\n"
