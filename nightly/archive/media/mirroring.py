"""The files of messages in ARCHIVE_MIRROR: new ones are added and read on both sides, the others in turns, all of them within SCRUB_DAYS.

Like segments (nightly/archive/mirror.py), they are never overwritten by a night; one that was forgotten here is removed there, or truncated where
the key may not delete.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from nightly.archive.media.index import MediaIndex
from nightly.archive.media.places import is_path, is_there
from nightly.archive.mirror import Comparison, Mirror, MirrorDiffers
from shared.errors import MirrorFailed
from shared.system.faults import crash_point

_ALL = ("--include=/media/", "--include=/media/*/", "--include=/media/*/*", "--exclude=*")
#: Files that rsync leaves when it is killed.
_LEFT_OVER = re.compile(r"\.[A-Za-z0-9_-]{1,100}\.[0-9a-f]{64}\.[A-Za-z0-9]{6}\Z")


class MediaMirror:
    """The mirror's `media/`. Paths are relative to the archive."""

    def __init__(self, mirror: Mirror, archive_dir: Path) -> None:
        self._mirror, self._archive_dir = mirror, archive_dir

    @property
    def place(self) -> str:
        return self._mirror.place

    def sizes(self) -> dict[str, int]:
        """Path → size of every file there; MirrorFailed if it is not reachable."""
        lines = self._mirror.rsync("--list-only", "--no-human-readable", *_ALL, self._mirror.root).splitlines()
        found = (line.split(maxsplit=4) for line in lines if line.startswith("-"))
        return {path: int(size.replace(",", "")) for _, size, *_, path in found if is_path(path)}

    def add(self, paths: Collection[str]) -> None:
        """Copy these files there; what exists there is not changed."""
        self._mirror.sweep({path.rpartition("/")[0] for path in paths}, _LEFT_OVER)
        self._send(paths, "--ignore-existing")

    def replace(self, paths: Collection[str]) -> None:
        """Copy these files there, instead of others under their names: those are not what their names say."""
        self._send(paths, "--checksum")

    def fetch(self, paths: Collection[str], into: Path) -> None:
        if paths:
            with _list(paths) as chosen:
                self._mirror.rsync(chosen, self._mirror.root, f"{into}/")

    def compare(self, paths: Collection[str]) -> Comparison:
        """Compare the bytes of these files, which are here, on both sides."""
        if not paths:
            return Comparison([], [], [])
        with _list(paths) as chosen:
            out = self._mirror.rsync(
                "--checksum", "--dry-run", "-ii", chosen, f"{self._archive_dir}/", self._mirror.root
            )
        changes = {line[12:]: line[2:11] for line in out.splitlines() if line[1:2] == "f"}
        same = [path for path in paths if path in changes and not changes[path].strip()]
        missing = [path for path in paths if changes.get(path, "+").startswith("+")]
        return Comparison(same, missing, sorted({*paths} - {*same, *missing}))

    def erase(self, paths: Collection[str]) -> None:
        """Remove these files there; where the key may not delete, leave them empty."""
        there = self.sizes()
        left = [path for path in paths if there.get(path)]
        if not left:
            return
        with tempfile.TemporaryDirectory(prefix="hmem-mirror-") as folder, _list(left) as chosen, _rules(left) as rules:
            for path in left:
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            try:  # everything else is excluded, which also protects it there
                self._mirror.rsync("--delete", rules, "--exclude=*", f"{folder}/", self._mirror.root)
            except MirrorFailed:
                for path in left:
                    (Path(folder) / path).touch()
                self._mirror.rsync("--ignore-times", chosen, f"{folder}/", self._mirror.root)

    def _send(self, paths: Collection[str], *how: str) -> None:
        if paths:
            with _list(paths) as chosen:
                self._mirror.send([chosen], self._archive_dir, sorted(paths), *how)


@contextmanager
def _list(paths: Collection[str]) -> Iterator[str]:
    """The option that has rsync take these files, and look at no other."""
    with _lines(paths) as name:
        yield f"--files-from={name}"


@contextmanager
def _rules(paths: Collection[str]) -> Iterator[str]:
    """The option that includes these files and the folders on the way to them."""
    folders = sorted({path.rpartition("/")[0] for path in paths})
    with _lines(["/media/", *(f"/{folder}/" for folder in folders), *(f"/{path}" for path in paths)]) as name:
        yield f"--include-from={name}"


@contextmanager
def _lines(lines: Collection[str]) -> Iterator[str]:
    """The name of a file that has these lines."""
    with tempfile.NamedTemporaryFile("w", prefix="hmem-files-", encoding="ascii") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        yield file.name


def bring_up_to_date(
    mirror: MediaMirror, index: MediaIndex, days: float, wanted: Collection[str], forgotten: Callable[[str], bool]
) -> set[str]:
    """Add what the mirror lacks, remove what was forgotten, verify the new files, those whose turn it is and the `wanted` ones; those of them that it
    has byte for byte. MirrorDiffers names one that differs. `forgotten`: whether a file is that of an erased turn."""
    if index.use_mirror(mirror.place):
        index.forget([path for path in mirror.sizes() if forgotten(path) and not is_there(index.archive_dir, path)])
    if gone := index.gone:
        mirror.erase(gone)
        index.gone_there(gone)
    crash_point("flush:media-erased-there")
    new = index.unmirrored
    chosen = sorted({*new, *wanted, *index.due("mirrored_at", days)})
    here = [path for path in chosen if is_there(index.archive_dir, path)]
    mirror.add([path for path in new if is_there(index.archive_dir, path)])
    found = mirror.compare(here)
    if found.missing:  # somebody removed them there
        mirror.add(found.missing)
        found = mirror.compare(here)
    index.mirrored(found.same)
    index.knows_mirror(mirror.place)
    crash_point("flush:media-mirrored")
    if wrong := [*found.different, *found.missing]:
        raise MirrorDiffers(
            f"In the mirror {mirror.place}, {wrong[0]} differs from the archive ({len(wrong)} files of messages in all). Nothing was deleted. "
            "Run hmem-night verify --repair: their names are their hashes, and it repairs the damaged copies."
        )
    return set(found.same)
