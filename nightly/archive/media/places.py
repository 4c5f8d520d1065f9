"""Where the archive has the files of messages: each under the turn that it came with, so that forgetting the turn is removing the file.

    archive/media/<40 hex digits of the chat's hash>/<task id>.<SHA-256 of its bytes>

A file never changes: its name says what is in it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from nightly.archive.catalog import Catalog
from shared.errors import StorageError
from shared.system.faults import crash_point
from shared.system.files import fsync_dir, make_dir, opened, write_atomic
from shared.turns.records import Turn

#: In the archive.
MEDIA = "media"
_PATH = re.compile(r"media/([0-9a-f]{40})/([A-Za-z0-9_-]{1,100})\.([0-9a-f]{64})\Z")


def folder_of(chat_id: str) -> str:
    """A chat's folder, relative to the archive."""
    return f"{MEDIA}/{hashlib.sha256(chat_id.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"


def path_of(chat_id: str, task_id: str, sha256: str) -> str:
    """A file, relative to the archive."""
    return f"{folder_of(chat_id)}/{task_id}.{sha256}"


def kept_paths(turn: Turn) -> list[str]:
    """Of the files that this turn says are kept."""
    return list(dict.fromkeys(path_of(turn.chat_id, turn.task_id, one.sha256) for one in turn.media if one.kept))


def is_path(path: str) -> bool:
    return _PATH.match(path) is not None


def task_of(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[0]


def listed(archive_dir: Path, folder: str | None = None) -> Iterator[str]:
    """All files, or those of one folder, sorted; what else lies there is nobody's."""
    for one in [folder] if folder else [f"{MEDIA}/{name}" for name in _names(archive_dir / MEDIA)]:
        yield from (path for name in _names(archive_dir / one) if is_path(path := f"{one}/{name}"))


def _names(directory: Path) -> list[str]:
    return (
        sorted(path.name for path in directory.iterdir()) if directory.is_dir() and not directory.is_symlink() else []
    )


def is_there(archive_dir: Path, path: str) -> bool:
    """Whether there is such a file; of what is in it this says nothing."""
    found = archive_dir / path
    return found.is_file() and not found.is_symlink()


def is_intact(archive_dir: Path, path: str) -> bool:
    """Whether a file is there, and is what its name says, byte for byte."""
    try:
        with opened(archive_dir / path, os.O_RDONLY) as handle:
            digest = hashlib.file_digest(handle, "sha256")  # type: ignore[arg-type] # typeshed lacks readinto of IO
        return digest.hexdigest() == path.rpartition(".")[2]
    except (OSError, StorageError):  # missing, unreadable, or no plain file
        return False


def put(archive_dir: Path, path: str, content: bytes) -> None:
    """Put a file there: whole, durable and read back, or not at all. StorageError if it cannot be read back."""
    target = archive_dir / path
    make_dir(target.parent)
    write_atomic(target, content)
    crash_point("archive:media-written")
    if not is_intact(archive_dir, path):
        target.unlink(missing_ok=True)
        raise StorageError(
            f"{target} could not be read back as it was written. Check the disk, then run the night again."
        )


def erase(archive_dir: Path, catalog: Catalog) -> int:
    """Remove the files of turns that were erased; how many. The mirror loses them when it is brought up to date."""
    chats = {one.chat_id for one in catalog.tombstones.values() if one.erase}
    folders = {folder_of(chat_id) for chat_id in chats}
    paths = [path for folder in sorted(folders) for path in listed(archive_dir, folder) if is_forgotten(catalog, path)]
    for path in paths:
        (archive_dir / path).unlink(missing_ok=True)
    for folder in {path.rpartition("/")[0] for path in paths}:
        fsync_dir(archive_dir / folder)
    crash_point("erase:media-removed")
    return len(paths)


def has_turn(catalog: Catalog, path: str) -> bool:
    """Whether a version of the turn that a file came with is in the archive."""
    turn_id = f"{task_of(path)}:user"
    return catalog.has_version(turn_id) and _is_in_chat(path, catalog.owner_of(turn_id))


def is_forgotten(catalog: Catalog, path: str) -> bool:
    """Whether a file is that of a turn of which only what remains after erasing is left."""
    turn_id = f"{task_of(path)}:user"
    return _is_in_chat(path, catalog.erased_in(turn_id)) and not catalog.has_version(turn_id)


def _is_in_chat(path: str, chat_id: str | None) -> bool:
    return chat_id is not None and path.startswith(f"{folder_of(chat_id)}/")
