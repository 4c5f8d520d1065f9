"""The formats that are there (directories, Redis, day store, release, archive): which are old, and which a newer program wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import orjson
from redis import RedisError

from dispatcher.health.findings import Finding, Setup, ok, problem, warning
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.tables import HEAD, REVISIONS, VERSION_TABLE
from shared.config.settings import Settings
from shared.errors import FormatNewer, ReleaseRefused
from shared.release.manifest import FORMAT_VERSION, MANIFEST, current_release
from shared.system.archive_folder import archive_files
from shared.system.formats import FORMATS, REDIS_FORMAT, UNREADABLE, parse, program_version, read_format
from shared.wire import keys

#: The newest format of archive segments. (Only the night's half reads segments, so the day's has the number once more; a test compares them.)
SEGMENT_FORMAT = 2
#: Places whose own checks report a newer format as a problem.
_CHECKED = ("day store", "release")
#: The longest first line of a segment that is read, in bytes.
_HEADER_BYTES = 65_536


@dataclass(frozen=True)
class FormatThere:
    """The format of one place. `order`: below 0 it is older than this program's or cannot be read, above 0 newer."""

    place: str
    shown: str
    order: int
    program: str = ""


def formats_there(settings: Settings, redis: Any) -> Iterator[FormatThere]:
    """Every place that is there and that this user may read."""
    for setting, reads in FORMATS.items():
        if found := read_format(getattr(settings, setting)):
            yield _numbered(setting.removeprefix("hmem_").removesuffix("_dir"), found.number, reads, found.program)
    found = None
    with suppress(RedisError):  # the checks of Redis say what is wrong
        found = parse(cast(bytes | None, redis.get(keys.FORMAT)))
    if found:
        yield _numbered("Redis", found.number, REDIS_FORMAT, found.program)
    yield from _day_store(settings)
    yield from _release(settings.hmem_memory_dir)
    yield from _archive(settings.hmem_night_dir)


def check_formats(setup: Setup) -> Finding:
    """Whatever outlives a version of the program has a format that this one reads."""
    there = list(formats_there(setup.settings, setup.redis))
    if newer := [one for one in there if one.order > 0 and one.place not in _CHECKED]:
        by = next((one.program for one in newer if one.program), "")
        writer = f"hcli-memory {by}" if by else "a newer hcli-memory"
        return problem(
            FormatNewer.exit_code,
            f"{writer[0].upper()}{writer[1:]} wrote {_listed(newer)}, which this program ({program_version()}) cannot read, so it changes nothing.",
            f"Install {writer} here, too.",
        )
    if newer := [one for one in there if one.order > 0]:
        return warning(
            f"A newer program than this one ({program_version()}) wrote {_listed(newer)}; the check of each says what follows.",
            "Install that version here, too.",
        )
    if older := [one for one in there if one.order < 0]:
        return warning(
            f"Not of this version: {_listed(older)}.",
            "Nothing to do: the next start of hmem run and the next night write them anew.",
        )
    return ok(
        f"All formats are those of this program ({program_version()}): {_listed(there) or 'nothing is there yet'}."
    )


def store_revision(path: Path) -> str | None:
    """The revision of a day store in a file; None where there is none, or it cannot be read."""
    with suppress(sqlite3.Error):  # the check of the store says what is wrong
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)) as connection:
            row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608 - a constant
        return str(row[0]) if row else None
    return None


def _listed(places: list[FormatThere]) -> str:
    return ", ".join(f"{one.place} {one.shown}" for one in places)


def _numbered(place: str, number: int, reads: int, program: str = "") -> FormatThere:
    shown = "unreadable" if number == UNREADABLE else str(number)
    return FormatThere(place, shown, number - reads, program)


def _day_store(settings: Settings) -> Iterator[FormatThere]:
    """SQLite's file only: the check of the store opens a server's."""
    if not settings.has_day_store:
        return
    with closing(Database(settings.day_store_url, settings.hmem_state_dir)) as database:
        found = store_revision(database.path) if database.path else None
    if found:
        order = 0 if found == HEAD else -1 if found in REVISIONS else 1
        yield FormatThere("day store", found, order)


def _release(memory: Path) -> Iterator[FormatThere]:
    number = None
    with suppress(OSError, ReleaseRefused, ValueError, KeyError, TypeError):  # its own check says what is wrong
        if memory.is_dir() and (release := current_release(memory)):
            number = orjson.loads((release / MANIFEST).read_bytes())["format_version"]
    if type(number) is int:
        yield _numbered("release", number, FORMAT_VERSION)


def _archive(night: Path) -> Iterator[FormatThere]:
    """The highest format of the segments; older ones are read as they are, and never rewritten."""
    numbers = list[int]()
    with suppress(OSError):  # there is none here, or this user may not read it
        numbers = [_header_format(night / "archive" / name) for _, name in archive_files(night / "archive")]
    if numbers:
        yield FormatThere("archive", str(max(numbers)), max(0, max(numbers) - SEGMENT_FORMAT))


def _header_format(path: Path) -> int:
    """Of a segment's first line; 0 if that cannot be read (the check of the archive says what is wrong)."""
    with path.open("rb") as handle, suppress(ValueError, KeyError, TypeError):
        number = orjson.loads(handle.readline(_HEADER_BYTES))["format"]
        return number if type(number) is int else 0
    return 0
