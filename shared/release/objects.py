"""The files of all releases, each once: `objects/<ab>/<sha256>`, of which the files in `releases/<run>/` are hard links.

A file gets here only from a release that was taken over, hashed, tested and made durable. What the next release has in common with an earlier one is
linked from here: it is neither sent nor stored again. Nobody but the receiver writes here, and a transfer cannot reach it.

The bytes of an object are compared with its name every seventh night, before it is linked; and all of a release's are when that release fails its
test, is not served, or is found damaged by a night without news or by `hmem release verify`. A damaged object is removed, so that it counts as
lacking and is sent again; the releases that have it keep it, and refuse it when they are opened. Where a file system has no hard links, a release
has copies and everything is sent.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import structlog

from shared.config.ownership import OBJECTS
from shared.release.integrity import is_due
from shared.release.manifest import RELEASES, Manifest
from shared.system.files import Modes, fsync_dir, make_dir, modes_of, own_dir, sha256_file

log = structlog.get_logger()

_DIGEST = re.compile(r"sha256:([0-9a-f]{2})([0-9a-f]{62})")


class Objects:
    """The objects of one memory directory, whose lock the caller holds."""

    def __init__(self, memory_dir: Path) -> None:
        self._dir = memory_dir
        self._modes: Modes = modes_of(memory_dir)

    def lacking(self, manifest: Manifest) -> list[str]:
        """The files of a release that are not here, or damaged; a damaged one is removed."""
        run = manifest.run
        return [
            name for name, file in manifest.files.items() if not self._is_sound(file, again=is_due(file["sha256"], run))
        ]

    def link(self, file: dict[str, Any], path: Path) -> bool:
        """Make `path` a link to the object, or a copy where no link can be made; False if there is no such object."""
        held = self._path(file)
        if not _has_size(held, file):
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            os.link(held, path)
        except OSError:  # no links here, or too many to one file
            shutil.copyfile(held, path)
        with path.open("rb") as handle:
            self._modes.apply(handle.fileno())
        return True

    def add(self, release: Path, manifest: Manifest) -> None:
        """Keep the files of a release that is proven and durable."""
        folders = {own_dir(self._dir, OBJECTS)}
        for name, file in manifest.files.items():
            held = self._path(file)
            if held.exists():
                continue
            make_dir(held.parent)
            try:
                os.link(release / name, held)
            except FileExistsError:
                continue
            except OSError as error:
                log.warning(
                    "files of releases cannot be shared, so each release is sent and stored whole", reason=str(error)
                )
                return
            folders.add(held.parent)
        for folder in folders:
            fsync_dir(folder)

    def compare(self, manifest: Manifest) -> list[str]:
        """Read all objects of a release now; the names of the damaged ones, which are removed."""
        found = [name for name, file in manifest.files.items() if self._path(file).exists()]
        return [name for name in found if not self._is_sound(manifest.files[name], again=True)]

    def sweep(self) -> int:
        """Remove objects that no release has; how many. A reader's own links to them (LanceDB's) keep nothing here."""
        used = {inode for _, inode in _files(self._dir / RELEASES)}
        unused = [path for path, inode in _files(self._dir / OBJECTS) if inode not in used]
        for path in unused:
            Path(path).unlink()
        return len(unused)

    def _path(self, file: dict[str, Any]) -> Path:
        match = _DIGEST.fullmatch(file["sha256"])
        if match is None:  # the manifest's schema has refused it
            raise ValueError(f"not a SHA-256: {file['sha256']!r}")
        return self._dir / OBJECTS / match[1] / match[2]

    def _is_sound(self, file: dict[str, Any], *, again: bool) -> bool:
        """By its size; `again`: byte for byte. What is not is removed."""
        held = self._path(file)
        if _has_size(held, file) and not (again and sha256_file(held) != file["sha256"]):
            return True
        if os.path.lexists(held):
            log.error("a stored file of the releases is damaged: it is removed and sent again", object=str(held))
            held.unlink()
        return False


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    """Path and inode of each file below a directory of ours, which may be missing."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            else:
                yield entry.path, entry.inode()


def _has_size(path: Path, file: dict[str, Any]) -> bool:
    try:
        return path.lstat().st_size == file["size"] and not path.is_symlink()
    except FileNotFoundError:
        return False
