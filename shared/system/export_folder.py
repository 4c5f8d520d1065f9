"""The folder that an export is written to: it gets its name when it is complete, so that a partial export is never mistaken for a full one.

And what the exports of a chat (`hmem export`) and of the archive (`hmem-night export-archive`) have in common: lines of turns, and files of messages.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

import orjson

from shared.errors import InvalidInput
from shared.system.files import PrivateDir, commit_dir, make_dir
from shared.turns.conversation import FOLDER, INDEX, FileNamer
from shared.turns.media import Media
from shared.turns.records import RecordRefused, Turn, loads_object, turn_key

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
    try:
        record = loads_object(value)
        named = turn_key(key)
    except RecordRefused:
        return None
    return value if (record.get("task_id"), record.get("role")) == named and "kind" not in record else None


class MediaExport:
    """The files of one chat's messages, written under readable names (shared/turns/conversation.py) as its turns pass.

    `content_of` returns a file's bytes, or None. `names`: (task id, SHA-256) → name; `missing`: of how many files there were no bytes, or others.
    """

    def __init__(self, folder: Path, zone: ZoneInfo, content_of: Callable[[Turn, Media], bytes | None]) -> None:
        self._folder, self._namer, self._content_of = folder, FileNamer(zone), content_of
        self._lines: list[dict[str, str | None]] = []
        self.names: dict[tuple[str, str], str] = {}

    def passing(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """The same turns; the files of each are written before it passes, and the index after the last one."""
        for turn in turns:
            for one in {one.sha256: one for one in turn.media if one.kept}.values():
                name = self._written(turn, one)
                about = {"turn_id": turn.turn_id, "sha256": one.sha256, "kind": one.kind, "mime": one.mime}
                self._lines.append({**about, "file": f"{FOLDER}/{name}" if name else None})
            yield turn
        if self._lines:
            with private_file(self._folder / INDEX) as handle:
                handle.writelines(orjson.dumps(line) + b"\n" for line in self._lines)

    @property
    def missing(self) -> int:
        return sum(line["file"] is None for line in self._lines)

    def _written(self, turn: Turn, one: Media) -> str | None:
        """Its name, if it is what its hash says."""
        name, content = self._namer.name(turn, one), self._content_of(turn, one)
        if content is None or hashlib.sha256(content).hexdigest() != one.sha256:
            return None
        with private_file(self._folder / FOLDER / name) as handle:
            handle.write(content)
        self.names[turn.task_id, one.sha256] = name
        return name
