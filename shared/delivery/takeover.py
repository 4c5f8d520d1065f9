"""Taking a release over: what another host has written becomes files of our own, proven while they are copied.

Whoever could write the files that were brought may still hold them open, or map them, or have a second name for them. So none of them is ever
served. Each file that the manifest names is read once, through descriptors that follow no link; what is read is written to a new file
where nobody else writes, and hashed on its way. Only names that a reader of ours knows are taken, and nothing may lie beside them.

`_take_file` is the one place where a file comes from: a store of files by their hash would be asked there first.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import MANIFEST, PLACES, SUMMARIES, Manifest, written_manifest
from shared.release.shape import MOST_BYTES
from shared.system.files import Modes, sha256_bytes

_AGAIN = "Run the night again."
_BLOCK_BYTES = 1 << 20
#: Every name that a build makes (and, of format 3, made). None leaves its directory, and length and depth are bounded.
_NAMES = re.compile(
    r"summaries/chat_(?:-?[a-z0-9][a-z0-9_-]{0,63}|~[0-9a-f]{40})_summary\.txt"
    r"|(?:lexical|vectors)(?:/[0-9]{1,9}(?:-[0-9]{1,9})?)?\.sqlite"
    r"|chroma/(?:chroma\.sqlite3|[0-9a-f-]{36}/[a-z0-9_]{1,40}\.(?:bin|pickle))"
    r"|lancedb/[a-z]{1,20}\.lance/(?:data|_[a-z]{1,20})(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}){1,3}"
    r"|qdrant\.json|redis\.json"
)
#: Waits for no pipe, follows no link, becomes no terminal.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY


def take_over(
    source: Path, destination: Path, modes: Modes, allow: Callable[[Manifest], None], sealed: str | None = None
) -> Manifest:
    """Copy the release in `source` into the empty directory `destination`, which only we write to; its manifest.

    `allow` is asked about the manifest before anything is copied, and raises to refuse it. `sealed`: the sha256 that the manifest's file must
    have. ReleaseRefused names what is missing, changed, no plain file, or unknown to our readers; StorageError if there is no room.
    """
    with _opened(None, str(source), _FOLDER) as folder:
        content = _read_manifest(folder)
        if sealed is not None and sha256_bytes(content) != sealed:
            raise ReleaseRefused(
                f"The manifest that was brought is not the one that the night has sealed: somebody else wrote to {source.parent}. {_AGAIN}"
            )
        manifest = written_manifest(content, f"of the release brought as {source.name}")
        allow(manifest)
        _refuse_unknown_names(manifest)
        _refuse_extras(folder, manifest)
        _refuse_without_room(destination, manifest)
        for name, expected in manifest.files.items():
            _take_file(folder, name, expected, destination / name, modes)
    _write(destination / MANIFEST, modes, [content])
    for inner in (destination, *(path for path in destination.rglob("*") if path.is_dir())):
        modes.apply_to_dir(inner)
    return manifest


@contextmanager
def _opened(folder: int | None, name: str, flags: int) -> Iterator[int]:
    """A descriptor of a name in an open directory; ReleaseRefused if it is not there, or is not what it should be."""
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError as error:
        raise ReleaseRefused(f"Of the release that was brought {name} is missing. {_AGAIN}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO):  # a link, a file for a directory, a socket
            raise ReleaseRefused(_no_plain(name)) from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened_below(folder: int, name: str, flags: int) -> Iterator[int]:
    """The same for a name with slashes: no step of the way may be a link."""
    first, slash, rest = name.partition("/")
    if not slash:
        with _opened(folder, first, flags) as descriptor:
            yield descriptor
        return
    with _opened(folder, first, _FOLDER) as inner, _opened_below(inner, rest, flags) as descriptor:
        yield descriptor


def _no_plain(name: str) -> str:
    return f"Of the release that was brought {_shown(name)} is no plain file or directory. A release holds nothing else. {_AGAIN}"


def _shown(name: str) -> str:
    """A name that a stranger chose, in one line."""
    return repr(name[:100])[1:-1]


def _read_manifest(folder: int) -> bytes:
    with _opened(folder, MANIFEST, _READ) as descriptor:
        size = _size_of(descriptor, MANIFEST)
        if size > MOST_BYTES:
            raise ReleaseRefused(
                f"The manifest that was brought has {size} bytes, and {MOST_BYTES} are the limit, so it was not read. {_AGAIN}"
            )
        return b"".join(_blocks(descriptor, MOST_BYTES))


def _size_of(descriptor: int, name: str) -> int:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ReleaseRefused(_no_plain(name))
    return found.st_size


def _blocks(descriptor: int, most: int) -> Iterator[bytes]:
    """What a file holds, and at most one block more than `most` bytes of it, however fast it grows."""
    left = most
    while left >= 0 and (block := os.read(descriptor, _BLOCK_BYTES)):
        left -= len(block)
        yield block


def _refuse_unknown_names(manifest: Manifest) -> None:
    places = {"lexical", SUMMARIES, *(PurePosixPath(PLACES[index]).stem for index in manifest.indexes)}
    for name in manifest.files:
        place = PurePosixPath(name.partition("/")[0]).stem
        if not _NAMES.fullmatch(name) or place not in places:
            raise ReleaseRefused(
                f"The manifest names {_shown(name)}, which no reader of this release knows. "
                f"Use the same version of hcli-memory on both hosts. {_AGAIN}"
            )


def _refuse_extras(folder: int, manifest: Manifest) -> None:
    """Nothing lies beside the files of the manifest. One that appears later is not taken either."""
    named = {MANIFEST, *manifest.files}
    folders = {parent.as_posix() for name in named for parent in PurePosixPath(name).parents} - {"."}
    for inner in ("", *sorted(folders)):
        with _opened_below(folder, inner or ".", _FOLDER) as descriptor, os.scandir(descriptor) as entries:
            for entry in entries:
                name = f"{inner}/{entry.name}" if inner else entry.name
                if name not in named | folders | {SUMMARIES}:  # there may be no summaries
                    raise ReleaseRefused(
                        f"Of the release that was brought {_shown(name)} is not in the manifest. {_AGAIN}"
                    )


def _refuse_without_room(destination: Path, manifest: Manifest) -> None:
    wanted, free = sum(int(file["size"]) for file in manifest.files.values()), shutil.disk_usage(destination).free
    if wanted > free:
        raise StorageError(
            f"The release that was brought has {wanted} bytes, and {free} are left on the disk of {destination}, so it cannot be copied. "
            "Make room (hmem release prune, or a lower RELEASES_KEPT), then run the night again."
        )


def _take_file(folder: int, name: str, expected: dict[str, Any], path: Path, modes: Modes) -> None:
    """One file of the manifest becomes `path`, a file of our own with exactly the bytes that were sealed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()

    def hashed(blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            digest.update(block)
            yield block

    with _opened_below(folder, name, _READ) as descriptor:
        _size_of(descriptor, name)
        _write(path, modes, hashed(_blocks(descriptor, expected["size"])))
        found = os.fstat(descriptor)  # its time: the next transfer links what is equal from a copy of this release
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    if path.stat().st_size != expected["size"] or f"sha256:{digest.hexdigest()}" != expected["sha256"]:
        raise ReleaseRefused(f"Of the release that was brought {name} was changed after it was built. {_AGAIN}")


def _write(path: Path, modes: Modes, blocks: Iterable[bytes]) -> None:
    """A new file; it becomes durable with the whole release."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as handle:
        handle.writelines(blocks)
        modes.apply(handle.fileno())
