"""Forgetting of files: those of the turns that a tombstone erases are removed, here at once, and from the mirror when it is brought up to date.

Only the folders of the chats of new tombstones are listed. A file stays if a version of its turn is left in the archive.
"""

from __future__ import annotations

from nightly.archive.catalog import Catalog
from nightly.archive.media.index import MediaIndex
from nightly.archive.media.places import folder_of, listed, task_of
from shared.system.faults import crash_point
from shared.system.files import fsync_dir


def erase(catalog: Catalog, index: MediaIndex) -> int:
    """How many were removed. After it the records are erased: `catalog` shows what is left. A crash repeats it."""
    erasing = {name: one.chat_id for name, one in catalog.tombstones.items() if one.erase}
    new = index.unapplied(erasing)
    paths = [
        path for chat_id in sorted({erasing[name] for name in new}) for path in forgotten_of(catalog, index, chat_id)
    ]
    index.forget(paths)
    crash_point("erase:media-noted")
    for path in paths:
        (index.archive_dir / path).unlink(missing_ok=True)
    for folder in sorted({path.rpartition("/")[0] for path in paths}):
        fsync_dir(index.archive_dir / folder)
    crash_point("erase:media-removed")
    index.applied(new)
    return len(paths)


def forgotten_of(catalog: Catalog, index: MediaIndex, chat_id: str) -> list[str]:
    """The files of a chat of which no turn is left."""
    return [path for path in listed(index.archive_dir, folder_of(chat_id)) if not has_turn(catalog, chat_id, path)]


def has_turn(catalog: Catalog, chat_id: str, path: str) -> bool:
    """Whether a version of the turn that a file of this chat came with is in the archive."""
    turn_id = f"{task_of(path)}:user"
    return catalog.has_version(turn_id) and catalog.owner_of(turn_id) == chat_id


def is_forgotten(catalog: Catalog, path: str) -> bool:
    """Whether a file is that of a turn of which only what remains after erasing is left."""
    turn_id = f"{task_of(path)}:user"
    chat_id = catalog.erased_in(turn_id)
    return chat_id is not None and path.startswith(f"{folder_of(chat_id)}/") and not catalog.has_version(turn_id)
