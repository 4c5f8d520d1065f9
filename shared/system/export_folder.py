"""The folder that an export is written to: it gets its name when it is complete, so that a partial export is never mistaken for a full one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

from shared.errors import InvalidInput
from shared.system.files import PrivateDir, commit_dir, make_dir

README = "README.txt"


def default_folder(zone: ZoneInfo, *names: str) -> Path:
    """`hmem-export[-name]-<date>` in the current directory; the date is today's in the zone."""
    return Path("-".join(["hmem-export", *names, datetime.now(zone).strftime("%Y-%m-%d")]))


@contextmanager
def export_folder(out: Path) -> Iterator[Path]:
    """A private folder next to `out` to write to; it becomes `out` at the end, or is removed if the block raises.

    InvalidInput if `out` exists and is not empty. Leftovers of a killed export to the same place are removed.
    """
    final = out.resolve()
    if final.exists() and not (final.is_dir() and not any(final.iterdir())):
        raise InvalidInput(f"{final} exists and is not empty, so nothing was written. Name another with --out.")
    beside = make_dir(final.parent) / f".{final.name}.tmp"
    work = PrivateDir(beside)
    try:
        yield work.path
        commit_dir(work.path, final)
    except OSError as error:
        error.filename = error.filename or final  # a full disk names none
        raise
    finally:
        work.remove()
        with suppress(OSError):  # another export to the same place is at work
            beside.rmdir()


def private_file(path: Path) -> IO[bytes]:
    """A new file for its owner alone, open for writing; its directory is made if it is missing."""
    make_dir(path.parent)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def bare_line(key: bytes, value: bytes) -> bytes | None:
    """The value of a turn's key if it can stand as a line by itself, else None: then its key, and perhaps its bytes, must be written around it.

    It can if it is a JSON object on one line that names task id and role as its key does. `kind` marks the lines that hold more than a
    value, so a value with a field of this name is none of them; a reader may strip a line, so none begins or ends with a blank.
    """
    if value[:1] != b"{" or value[-1:] != b"}" or b"\n" in value or b"\r" in value:
        return None
    # Here, because every command that only offers an export imports this module.
    from shared.turns.records import RecordRefused, loads_object, turn_key

    try:
        record = loads_object(value)
        named = turn_key(key)
    except RecordRefused:
        return None
    return value if (record.get("task_id"), record.get("role")) == named and "kind" not in record else None
