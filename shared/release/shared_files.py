"""Files that a release has in common with an earlier one: they are neither sent nor stored again, but are hard links of the earlier ones.

A file is shared only if it is, byte for byte, what both manifests say: a damaged one counts as lacking and is sent again, and the releases that have
it refuse it when they are opened. Nobody but the receiver writes to releases, and a transfer cannot reach them. Where a file system has no hard
links, a release has copies.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from shared.errors import ReleaseRefused
from shared.release.manifest import Manifest, read_manifest, release_dir
from shared.release.manifest_schema import File
from shared.release.retention import release_runs
from shared.system.files import Modes, link_or_copy, sha256_file


def held_files(memory_dir: Path, manifest: Manifest) -> dict[str, Path]:
    """The files of a release that an earlier release has, where they are there."""
    known = dict[str, Path]()
    for run in release_runs(memory_dir):
        release = release_dir(memory_dir, run)
        with suppress(ReleaseRefused):
            known |= {file["sha256"]: release / name for name, file in read_manifest(release).files.items()}
    found = ((name, file, known.get(file["sha256"])) for name, file in manifest.files.items())
    return {name: path for name, file, path in found if path and _is_sound(path, file)}


def _is_sound(path: Path, file: File) -> bool:
    with suppress(OSError):
        plain = path.is_file() and not path.is_symlink() and path.stat().st_size == file["size"]
        return plain and sha256_file(path) == file["sha256"]
    return False


def link(held: Path, path: Path, modes: Modes) -> None:
    """Make `path` a link to this file, or a copy where no link can be made."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    link_or_copy(held, path)
    with path.open("rb") as handle:
        modes.apply(handle.fileno())
