"""Files that survive a power cut, and names that stay in their directory.

The rule (ALICE, Pillai et al., OSDI 2014): write a temporary file in the same directory, flush, fsync it, rename it over
the final name, fsync the directory. A directory of results is committed the same way: everything in it is fsynced, then
it is renamed. Nothing here retries a failed fsync: the kernel may have dropped the pages, so the write counts as not done.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from shared.config.ownership import refuse_unsafe, trusted_owners
from shared.errors import StorageError

#: Chat ids that are their own file name: lower case only, so that two ids never meet on a case-blind file system.
_PLAIN_NAME = re.compile(r"-?[a-z0-9][a-z0-9_-]{0,63}\Z")


def safe_name(chat_id: str) -> str:
    """File-system name of a chat: the id itself where that is harmless, else `~` and 40 hex digits of its SHA-256.

    Injective: a plain name never begins with `~`, so no two ids share a name, and none leaves its directory.
    """
    if _PLAIN_NAME.match(chat_id):
        return chat_id
    return "~" + hashlib.sha256(chat_id.encode("utf-8")).hexdigest()[:40]


@contextmanager
def opened_dir(path: Path, flags: int = 0) -> Iterator[int]:
    """The descriptor of a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def fsync_dir(path: Path) -> None:
    """Make the names inside a directory durable."""
    with opened_dir(path) as descriptor:
        os.fsync(descriptor)


def make_dir(path: Path) -> Path:
    """Create a directory (0700) with its parents, each made durable in the one above it."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
        fsync_dir(directory.parent)
    return path


def own_dir(root: Path, *below: str) -> Path:
    """One of our directories, made (0700) if it is not there: `root`, which a setting names, or a fixed one below it.

    StorageError if one of them must not be used (shared/config/ownership.py): `root` may be a link, what is below it may not.
    """
    trusted = trusted_owners(make_dir(root))
    refuse_unsafe(root, trusted, follow=True)
    path = root
    for name in below:
        path = path / name
        refuse_unsafe(path, trusted)
    return make_dir(path)


def own_root(root: Path, fixed: Iterable[str]) -> Path:
    """A directory that a setting names, made if it is not there; StorageError unless it and those of `fixed` that are in it may be used."""
    trusted = trusted_owners(own_dir(root))
    for name in fixed:
        refuse_unsafe(root / name, trusted)
    return root


@contextmanager
def opened(path: Path, flags: int) -> Iterator[IO[bytes]]:
    """One of our own files: a plain one, never what a link leads to, and no pipe that keeps us waiting. StorageError where something else is there.

    Whoever may write in one of our directories could put a link there, for another user's command to follow.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise StorageError(_no_plain_file(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StorageError(_no_plain_file(path))
    with os.fdopen(descriptor, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b") as handle:
        yield handle


def _no_plain_file(path: Path) -> str:
    return f"{path} is a link or not a regular file, so it is not used: another user may have put it there. Check it, then remove it (rm {path})."


def read_own(path: Path) -> bytes:
    """What one of our own files holds (`opened`)."""
    with opened(path, os.O_RDONLY) as handle:
        return handle.read()


@contextmanager
def locked_file(path: Path, *, wait: bool = True) -> Iterator[IO[bytes]]:
    """Hold the lock of a file, made if it is not there; BlockingIOError if another process holds it and we do not wait.

    It lasts until every process that was given the descriptor has ended.
    """
    with opened(path, os.O_RDWR | os.O_CREAT) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield lock


@dataclass(frozen=True)
class Modes:
    """Who may read what is written: its owner alone, or the members of one group (by number) too. Nobody else may write."""

    file: int = 0o600
    directory: int = 0o700
    group: int | None = None

    def apply(self, descriptor: int) -> None:
        """Set them on an open file or directory. Where this user may not give it to the group, its owner alone may read it."""
        found = os.fstat(descriptor)
        mode = self.directory if stat.S_ISDIR(found.st_mode) else self.file
        if self.group is not None and found.st_gid != self.group:
            try:
                os.fchown(descriptor, -1, self.group)
            except PermissionError:
                mode &= 0o700
        os.fchmod(descriptor, mode)

    def apply_to_dir(self, path: Path) -> None:
        with opened_dir(path, os.O_NOFOLLOW) as descriptor:
            self.apply(descriptor)


#: For the owner alone.
PRIVATE = Modes()


def modes_of(memory_dir: Path) -> Modes:
    """The modes of releases and the pin: readable by the group of `memory_dir` if that itself is, else private."""
    found = memory_dir.stat()
    return Modes(0o640, 0o750, found.st_gid) if found.st_mode & stat.S_IRGRP else PRIVATE


@contextmanager
def atomic_writer(path: Path, modes: Modes = PRIVATE) -> Iterator[IO[bytes]]:
    """Write a file that appears under its name whole and durable, or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            if modes != PRIVATE:
                modes.apply(handle.fileno())
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # a full disk names no file
            error.filename = str(path)
        temporary.unlink(missing_ok=True)
        raise
    fsync_dir(path.parent)


def write_atomic(path: Path, content: bytes, modes: Modes = PRIVATE) -> None:
    """Write `content` to `path`, whole and durable or not at all."""
    with atomic_writer(path, modes) as handle:
        handle.write(content)


def copy_atomic(source: Path, target: Path) -> None:
    """Copy a file's bytes, whole and durable or not at all."""
    with source.open("rb") as read, atomic_writer(target) as handle:
        shutil.copyfileobj(read, handle)


def link_or_copy(source: Path, target: Path) -> None:
    """The same file under another name; a copy where no link can be made (another file system, another user's file, or too many links to it)."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def fsync_tree(path: Path) -> None:
    """fsync every file and directory below `path`, and `path` itself (Chroma and SQLite leave some to chance).

    Not a file that has another name: we link only files that are durable already, and a directory's fsync covers its new names.
    """
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            with (Path(folder) / name).open("rb") as handle:
                if os.fstat(handle.fileno()).st_nlink == 1:
                    os.fsync(handle.fileno())
        fsync_dir(Path(folder))


def commit_dir(temporary: Path, final: Path) -> None:
    """Commit a directory of results: fsync all of it, rename it, fsync the parent."""
    fsync_tree(temporary)
    temporary.rename(final)
    fsync_dir(final.parent)


def fresh_dir(path: Path) -> Path:
    """An empty directory at `path`; what a crash left there is discarded, never resumed."""
    remove_tree(path)
    return make_dir(path)


class PrivateDir:
    """A new directory for this process alone, gone with `remove` or, after a crash, when the next one is made beside it.

    A lock on the directory itself says that its owner lives: unlike a process id it means the same inside and outside a container.
    StorageError if `base` must not be used (shared/config/ownership.py).
    """

    def __init__(self, base: Path) -> None:
        refuse_unsafe(base, trusted_owners(make_dir(base.parent)))
        with locked_dir(make_dir(base)):  # nobody may take a directory that is not locked yet for an abandoned one
            for old in base.iterdir():
                if old.is_dir():
                    _remove_if_abandoned(old)
            self.path = make_dir(base / uuid.uuid4().hex)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        remove_tree(self.path)
        os.close(self._lock)


@contextmanager
def locked_dir(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory; waits for whoever holds it."""
    with opened_dir(directory) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def try_locked_dir(directory: Path) -> Iterator[bool]:
    """Hold the lock of a directory if no other process does; whether it is held (False also on a file system without locks).

    OSError if the directory cannot be opened.
    """
    with opened_dir(directory) as lock:
        held = False
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        yield held


def _remove_if_abandoned(directory: Path) -> None:
    with suppress(FileNotFoundError), try_locked_dir(directory) as abandoned:  # another process was quicker
        if abandoned:
            remove_tree(directory)


#: The eight digits of `atomic_writer`, so that `key` does not also name the halves of `key.ring`.
_HALF = "[0-9a-f]" * 8


def remove_halves(directory: Path, name: str = "*") -> None:
    """Remove what a kill in the middle of `atomic_writer` or `switch_link` has left of this file (or of all) that nobody writes to now."""
    for left in list(directory.glob(f".{name}.tmp" if name == "*" else f".{name}.{_HALF}.tmp")):
        left.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """Remove a directory (or whatever else is there, or nothing); a link is removed, never followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sha256_file(path: Path) -> str:
    """`sha256:<hex>` of a file's bytes."""
    with path.open("rb") as handle:
        return f"sha256:{hashlib.file_digest(handle, 'sha256').hexdigest()}"


def sha256_bytes(content: bytes) -> str:
    """`sha256:<hex>` of bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def switch_link(link: Path, target: str) -> None:
    """Point a symlink at `target` in one step: readers see the old or the new one, never none."""
    temporary = link.with_name(f".{link.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.symlink_to(target)
    try:
        temporary.replace(link)
    except OSError:
        temporary.unlink()
        raise
    fsync_dir(link.parent)
