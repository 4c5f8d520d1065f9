"""A quick check of the night's directory: whether it is writable, and whether the archive is intact as far as can be read quickly.

`hmem-night verify` reads every byte; this reads the newest files up to a limit, and of the others the last line, which a truncated file lacks.
That line has the hash of its file (nightly/archive/segments.py); the last night recorded which files must exist.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from shared.config.ownership import OURS, user_name
from shared.errors import ArchiveDamaged, HmemError, StorageError

#: A file of the archive: `seg-<run>.jsonl` or `texts-<run>.jsonl`. A second file of texts in one run (settings were changed between two attempts
#: at it) is `texts-<run>.2.jsonl`.
_NAME = re.compile(r"(?:seg-([0-9]+)|texts-([0-9]+)(?:\.[0-9]+)?)\.jsonl\Z")
#: What no segment has yet, since the last night (nightly/archive/capture.py).
CAPTURE = "capture.jsonl"
#: Bytes that are read and hashed, the newest files first, and of each other file its end.
READ_BYTES, END_BYTES = 64 << 20, 4096
_BLOCK_BYTES = 1 << 20
_REPAIR = "Restore it from a copy; with ARCHIVE_MIRROR set, hmem-night verify --repair does that (hmem-night verify lists everything that is damaged)"


def run_of(name: str) -> int | None:
    """The run that a file of the archive is named after; None for any other name."""
    match = _NAME.match(name)
    return int(match[1] or match[2]) if match else None


def archive_files(directory: Path) -> list[tuple[int, str]]:
    """(run, name) of all files of the archive, in order of the runs."""
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    return sorted((run, name) for name in names if (run := run_of(name)) is not None)


def proven_hash(path: Path) -> str | None:
    """The sha256 of a file of the archive, read in blocks; None unless its last line, whole, matches all lines before it."""
    with path.open("rb") as handle:
        handle.seek(-min(END_BYTES, os.fstat(handle.fileno()).st_size), os.SEEK_END)
        last = handle.read().removesuffix(b"\n").rpartition(b"\n")[2] + b"\n"
        left, lines, digest = max(0, handle.tell() - len(last)), 0, hashlib.sha256()
        handle.seek(0)
        while left and (block := handle.read(min(left, _BLOCK_BYTES))):
            digest.update(block)
            lines += block.count(b"\n")
            left -= len(block)
        try:
            end = orjson.loads(last)
            wanted = (end["kind"], end["lines"], end["sha256"])
            sound = (
                wanted == ("end", lines, f"sha256:{digest.hexdigest()}") and handle.read() == orjson.dumps(end) + b"\n"
            )
        except (ValueError, KeyError, TypeError):
            return None
        digest.update(last)
        return f"sha256:{digest.hexdigest()}" if sound else None


def look(night_dir: Path) -> str:
    """How much of it was read, as a sentence. ArchiveDamaged names the first file that is missing, cut or changed.

    PermissionError if this user may not read there.
    """
    directory = night_dir / "archive"
    names = [name for _, name in archive_files(directory)]
    for name in sorted(_seen_by_the_last_night(night_dir) - {*names}):
        raise _damaged(directory / name, "is missing, but an earlier night recorded it")
    left, read = READ_BYTES, 0
    for name in reversed(names):
        path = directory / name
        left -= path.stat().st_size
        if left >= 0 or not read:  # the newest one whatever its size
            read += 1
            if proven_hash(path) is None:
                raise _damaged(path, "is damaged (its last line does not match its content)")
        elif not _has_an_end(path):
            raise _damaged(path, "is damaged (its end is missing)")
    if read == len(names):
        return f"The archive is intact: all of its {read} files were read."
    return f"The archive looks intact: {len(names)} files, the newest {read} of them read; hmem-night verify reads all of it."


def _damaged(path: Path, what: str) -> ArchiveDamaged:
    return ArchiveDamaged(f"Archive segment {path} {what}, so the next night stops there. {_REPAIR}.")


def _seen_by_the_last_night(night_dir: Path) -> set[str]:
    """Names of the segments that the newest night with an archive step has written down; none where that cannot be read as one."""
    results = {path.parts[-3]: path for path in night_dir.glob("nights/*/archive/result.json")}
    newest = max(filter(str.isdigit, results), key=int, default=None)
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return set(orjson.loads(results[newest].read_bytes())["segments"]) if newest else set()
    return set()


def _has_an_end(path: Path) -> bool:
    with path.open("rb") as handle:
        handle.seek(-min(END_BYTES, path.stat().st_size), os.SEEK_END)
        last = handle.read().rpartition(b"\n")[0].rpartition(b"\n")[2]
    return last.startswith(b'{"kind":"end"')


def unwritable(night_dir: Path) -> str | None:
    """Why no night can write here, as the beginning of a sentence; None if it can as far as this user may see, or if it is not there."""
    for path in (night_dir, *(night_dir / name for name in OURS["hmem_night_dir"])):
        try:
            found = path.stat()
        except (FileNotFoundError, PermissionError):  # another user's is closed to us
            continue
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return f"{path} is on a file system that is mounted read-only"
        mine = found.st_uid == os.geteuid()
        if not (os.access(path, os.W_OK | os.X_OK, effective_ids=True) if mine else found.st_mode & 0o200):
            return (
                f"{path} cannot be written by its owner {user_name(found.st_uid)} (mode {found.st_mode & 0o7777:04o})"
            )
    return None


def cannot_write(why: str) -> HmemError:
    """The error for what `unwritable` has found."""
    return StorageError(
        f"{why}, so the next night fails. Mount it for writing, or restore that permission (chmod u+rwx as its owner or root)."
    )


def condition(night_dir: Path) -> Iterator[HmemError]:
    """What is wrong with a night's directory, for its own user."""
    if why := unwritable(night_dir):
        yield cannot_write(why)
    try:
        look(night_dir)
    except ArchiveDamaged as error:
        yield error
