"""Taking a release over: files that another host has written are copied into files of our own, and these are verified.

A process that could write the incoming files may still have them open, mapped, or linked under a second name. So they are never served. Each
file that the manifest names is read once, through descriptors that follow no links; its bytes are written to a new file where no other user
writes, and that one is hashed. Only names that our readers know are accepted, and no other files may be present.

What an earlier release has too is not sent: it becomes a hard link of that one's file, where there are none a copy. Only a file that is, byte for
byte, what both manifests say is shared: a damaged one counts as lacking and is sent again, and the releases that have it refuse it when they are
opened. Nobody but the receiver writes to releases, and a transfer cannot reach them.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from shared.config.kinds import indexes
from shared.errors import ReleaseRefused, StorageError
from shared.release.manifest import (
    CHATS,
    IMPORTS,
    LEXICAL,
    MANIFEST,
    NOTE_VECTORS,
    NOTES,
    Manifest,
    read_manifest,
    release_dir,
    written_manifest,
)
from shared.release.manifest_schema import MOST_BYTES, File
from shared.release.parts import PART
from shared.release.retention import release_runs
from shared.system.files import Modes, link_or_copy, sha256_bytes, sha256_file

_AGAIN = "Run the night again."
_BLOCK_BYTES = 1 << 20
#: The names that builds create; each index says which are its own. None leaves its directory, and length and depth are bounded.
_NAMES = (re.escape(CHATS), re.escape(IMPORTS), f"(?:{LEXICAL}|{NOTES}|{NOTE_VECTORS})/{PART}")
#: Does not block on a pipe, follow a link, or acquire a terminal.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = _READ | os.O_DIRECTORY


def take_over(
    source: Path, destination: Path, memory_dir: Path, sealed: str, allow: Callable[[Manifest], None], modes: Modes
) -> None:
    """Copy the release in `source` into the empty directory `destination`, which only we write to. What was not sent is linked from the releases in
    `memory_dir`.

    `sealed`: the sha256 that the manifest's file must have. `allow` gets the manifest before anything is copied, and raises to refuse it.
    ReleaseRefused names what is missing, changed, not a regular file, or unknown to our readers; StorageError if there is not enough space.
    """
    with _opened(None, str(source), _FOLDER) as folder:
        content = _read_manifest(folder)
        manifest = _sealed_manifest(content, source, sealed)
        allow(manifest)
        _refuse_unknown_names(manifest)
        sent, held = _sent(folder, manifest), held_files(memory_dir, manifest)
        sent += [name for name in manifest.files if name not in held and name not in sent]  # missing: it reports them
        for name in manifest.files.keys() - sent:
            _link(held[name], destination / name, modes)
        _refuse_without_room(destination, sum(int(manifest.files[name]["size"]) for name in sent))
        for name in sent:
            _take_file(folder, name, manifest.files[name], destination / name, modes)
    _write(destination / MANIFEST, modes, [content])
    for inner in (destination, *(path for path in destination.rglob("*") if path.is_dir())):
        modes.apply_to_dir(inner)


def received_manifest(source: Path, sealed: str) -> Manifest:
    """The manifest in `source`, once it has arrived; ReleaseRefused if it is not the sealed one."""
    with _opened(None, str(source), _FOLDER) as folder:
        return _sealed_manifest(_read_manifest(folder), source, sealed)


def _sealed_manifest(content: bytes, source: Path, sealed: str) -> Manifest:
    if sha256_bytes(content) != sealed:
        raise ReleaseRefused(
            f"The received manifest is not the one that the night has sealed: another program wrote to {source.parent}. {_AGAIN}"
        )
    return written_manifest(content, f"of the release received as {source.name}")


@contextmanager
def _opened(folder: int | None, name: str, flags: int) -> Iterator[int]:
    """A descriptor of a name in an open directory; ReleaseRefused if it is missing or of the wrong type."""
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError as error:
        raise ReleaseRefused(f"In the received release {name} is missing. {_AGAIN}") from error
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
    """The same for a name with slashes: no component may be a link."""
    first, slash, rest = name.partition("/")
    if not slash:
        with _opened(folder, first, flags) as descriptor:
            yield descriptor
        return
    with _opened(folder, first, _FOLDER) as inner, _opened_below(inner, rest, flags) as descriptor:
        yield descriptor


def _no_plain(name: str) -> str:
    return f"In the received release {_shown(name)} is not a regular file or directory. A release contains nothing else. {_AGAIN}"


def _shown(name: str) -> str:
    """An untrusted name, in one line."""
    return repr(name[:100])[1:-1]


def _read_manifest(folder: int) -> bytes:
    with _opened(folder, MANIFEST, _READ) as descriptor:
        size = _size_of(descriptor, MANIFEST)
        if size > MOST_BYTES:
            raise ReleaseRefused(
                f"The received manifest has {size} bytes, more than the limit of {MOST_BYTES}, so it was not read. {_AGAIN}"
            )
        return b"".join(_blocks(descriptor, MOST_BYTES))


def _size_of(descriptor: int, name: str) -> int:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise ReleaseRefused(_no_plain(name))
    return found.st_size


def _blocks(descriptor: int, most: int) -> Iterator[bytes]:
    """The contents of a file, at most one block more than `most` bytes, even if it is growing."""
    left = most
    while left >= 0 and (block := os.read(descriptor, _BLOCK_BYTES)):
        left -= len(block)
        yield block


def _refuse_unknown_names(manifest: Manifest) -> None:
    known = re.compile("|".join([*_NAMES, *(indexes()[index].files for index in manifest.indexes)]))
    for name in manifest.files:
        if not known.fullmatch(name):
            raise ReleaseRefused(
                f"The manifest names {_shown(name)}, which no reader of this release knows. "
                f"Use the same version of hcli-memory on both hosts. {_AGAIN}"
            )


def _sent(folder: int, manifest: Manifest) -> list[str]:
    """The files of the manifest that were sent; refuses any other. One that appears later is not copied either."""
    sent = list[str]()
    named = {MANIFEST, *manifest.files}
    folders = {parent.as_posix() for name in named for parent in PurePosixPath(name).parents} - {"."}
    left = [""]  # directories that are there: one of which nothing was sent may be missing
    while left:
        inner = left.pop()
        with _opened_below(folder, inner or ".", _FOLDER) as descriptor, os.scandir(descriptor) as entries:
            for entry in entries:
                name = f"{inner}/{entry.name}" if inner else entry.name
                if name in folders:
                    left.append(name)
                elif name not in named:
                    raise ReleaseRefused(f"In the received release {_shown(name)} is not in the manifest. {_AGAIN}")
                elif name != MANIFEST:
                    sent.append(name)
    return sent


def _refuse_without_room(destination: Path, wanted: int) -> None:
    free = shutil.disk_usage(destination).free
    if wanted > free:
        raise StorageError(
            f"The received files have {wanted} bytes, but only {free} are free on the disk of {destination}, so they cannot be copied. "
            "Free some space (hmem release prune, or a lower RELEASES_KEPT), then run the night again."
        )


def _take_file(folder: int, name: str, expected: dict[str, Any], path: Path, modes: Modes) -> None:
    """Copy one file of the manifest to `path`, a file of our own with exactly the sealed bytes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened_below(folder, name, _READ) as descriptor:
        _size_of(descriptor, name)
        _write(path, modes, _blocks(descriptor, expected["size"]))
    if not _is_sound(path, expected):
        raise ReleaseRefused(f"In the received release {name} was changed after it was built. {_AGAIN}")


def _write(path: Path, modes: Modes, blocks: Iterable[bytes]) -> None:
    """Write a new file; it becomes durable together with the release."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as handle:
        handle.writelines(blocks)
        modes.apply(handle.fileno())


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


def _link(held: Path, path: Path, modes: Modes) -> None:
    """Make `path` a link to this file, or a copy where no link can be made."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    link_or_copy(held, path)
    with path.open("rb") as handle:
        modes.apply(handle.fileno())
