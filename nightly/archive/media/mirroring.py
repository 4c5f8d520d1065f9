"""The files of messages in ARCHIVE_MIRROR: new ones are added and read on both sides, the others in turns, all of them within a week.

Like segments (nightly/archive/mirror.py), they are never overwritten by a night; one that was forgotten here is removed there, or truncated where
the key may not delete.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from pathlib import Path

from nightly.archive.media.index import MediaIndex
from nightly.archive.media.places import is_path, is_there
from nightly.archive.mirror import Mirror, MirrorDiffers, lines_file
from shared.errors import MirrorFailed
from shared.system.faults import crash_point

_ALL = ("--include=/media/", "--include=/media/*/", "--include=/media/*/*", "--exclude=*")


def sizes(mirror: Mirror) -> dict[str, int]:
    """Path → size of every file there; MirrorFailed if it is not reachable."""
    return {path: size for path, size in mirror.sizes(*_ALL).items() if is_path(path)}


def erase(mirror: Mirror, paths: Collection[str]) -> None:
    """Remove these files there; where the key may not delete, leave them empty."""
    there = sizes(mirror)
    left = [path for path in paths if there.get(path)]
    if not left:
        return
    folders = sorted({path.rpartition("/")[0] for path in left})
    wanted = ["/media/", *(f"/{folder}/" for folder in folders), *(f"/{path}" for path in left)]
    with tempfile.TemporaryDirectory(prefix="hmem-mirror-") as empty, lines_file(wanted) as rules:
        for folder in folders:
            (Path(empty) / folder).mkdir(parents=True)
        try:  # everything else is excluded, which also protects it there
            mirror.rsync("--delete", f"--include-from={rules}", "--exclude=*", f"{empty}/", mirror.root)
        except MirrorFailed:
            mirror.truncate(left)


def bring_up_to_date(
    mirror: Mirror, index: MediaIndex, days: float, wanted: Collection[str], forgotten: Callable[[str], bool]
) -> set[str]:
    """Add what the mirror lacks, remove what was forgotten, verify the new files, those whose turn it is and the `wanted` ones; those of them that it
    has byte for byte. MirrorDiffers names one that differs. `forgotten`: whether a file is that of an erased turn."""
    if index.use_mirror(mirror.place):
        index.forget([path for path in sizes(mirror) if forgotten(path) and not is_there(index.archive_dir, path)])
    if gone := index.gone:
        erase(mirror, gone)
        index.gone_there(gone)
    crash_point("flush:media-erased-there")
    new = index.unmirrored
    chosen = sorted({*new, *wanted, *index.due("mirrored_at", days)})
    here = [path for path in chosen if is_there(index.archive_dir, path)]
    mirror.add(index.archive_dir, [path for path in new if is_there(index.archive_dir, path)])
    found = mirror.compare(index.archive_dir, here)
    if found.missing:  # somebody removed them there
        mirror.add(index.archive_dir, found.missing)
        found = mirror.compare(index.archive_dir, here)
    index.mirrored(found.same)
    index.knows_mirror(mirror.place)
    crash_point("flush:media-mirrored")
    if wrong := [*found.different, *found.missing]:
        raise MirrorDiffers(
            f"In the mirror {mirror.place}, {wrong[0]} differs from the archive ({len(wrong)} files of messages in all). Nothing was deleted. "
            "Run hmem-night verify --repair: their names are their hashes, and it repairs the damaged copies."
        )
    return set(found.same)
