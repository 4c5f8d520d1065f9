"""A directory from anybody: no link in it is followed, and nothing in it is opened that is not a plain file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from nightly.imports.containers.members import Member
from shared.errors import InvalidInput

#: Files and directories, pictures included.
MOST_FILES = 200_000
_DEEPEST = 64


def members_of(root: Path) -> tuple[list[Member], list[tuple[str, str]]]:
    """The plain files below it in the order of their names, and what was refused: (path, why). Hidden ones (`.git`) are passed over.

    InvalidInput if it cannot be listed, or is larger than any export.
    """
    members, refused = list[Member](), list[tuple[str, str]]()
    inside = Path(os.path.realpath(root))
    for number, entry in enumerate(_walk(root)):
        if number >= MOST_FILES:
            raise InvalidInput(f"{root} holds more than {MOST_FILES} files. Name the directory of the export alone.")
        name = os.fsencode(os.path.relpath(entry.path, root)).decode("utf-8", "replace")
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            if not Path(os.path.realpath(entry.path)).is_relative_to(inside):
                refused.append((name, "a link that leads out of the directory: it was not followed"))
        elif stat.S_ISREG(status.st_mode):
            members.append(Member(name, status.st_size, partial(open_plain, Path(entry.path)), status.st_mtime))
        elif not stat.S_ISDIR(status.st_mode):
            refused.append((name, "not a plain file (a pipe, socket or device): it was not opened"))
    return members, refused


def open_plain(path: Path) -> BinaryIO:
    """A plain file, and never what took its place meanwhile: OSError for a link, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a plain file")
    return os.fdopen(descriptor, "rb")


def _walk(directory: Path, depth: int = 0) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            listed = sorted(
                (entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name
            )
    except OSError as error:
        raise InvalidInput(f"{directory} cannot be listed: {error.strerror}. Check its permissions.") from error
    for entry in listed:
        yield entry
        if entry.is_dir(follow_symlinks=False) and depth < _DEEPEST:
            yield from _walk(Path(entry.path), depth + 1)
