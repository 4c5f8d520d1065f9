"""An export as people have it: the ZIP archive as it was downloaded, the directory that it was unpacked to, or the one file that matters."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate, open_input
from nightly.imports.containers.members import Member
from nightly.imports.containers.zip_file import MAGIC, opened_zip
from shared.errors import InvalidInput
from shared.turns.records import RecordRefused


@dataclass(frozen=True)
class Export:
    """`alone`: the one file that was named. `refused`: what was not opened, and why."""

    path: Path
    size: int
    members: list[Member]
    alone: bool = False
    refused: list[tuple[str, str]] = field(default_factory=list)

    def fitting(self, *patterns: str) -> list[Member]:
        """The files whose name fits one of the patterns, whatever the case; a file that was named alone fits."""
        return [one for one in self.members if self.alone or _fits(one.base, patterns)]

    def named(self, *patterns: str) -> list[Member]:
        """The same; InvalidInput if there is none."""
        found = self.fitting(*patterns)
        if not found:
            nested = any(one.base.lower().endswith(".zip") for one in self.members)
            advice = "Unpack the archives in it, and name one of them" if nested else "Name the export as it was made"
            raise InvalidInput(f"There is no {' or '.join(patterns)} in {self.path}. {advice}.")
        return found

    @property
    def is_zip(self) -> bool:
        return not self.alone and not self.path.is_dir()

    def place(self, member: Member) -> str:
        return str(self.path) if self.alone else self.place_of(member.name)

    def place_of(self, name: str) -> str:
        """As it is shown."""
        return f"{self.path}:{printable(name)}"

    def done(self, members: list[Member], before: int, within: int) -> int:
        """How much of the export's size has been read, with `within` bytes of the member after the first `before` of these."""
        total = sum(one.size for one in members) or 1
        read = sum(one.size for one in members[:before]) + within
        return min(self.size, self.size * read // total)

    def each(
        self, members: list[Member], read: Callable[[Member, Callable[[int], int]], Iterator[ReadCandidate]]
    ) -> Iterator[ReadCandidate]:
        """What was not opened, then what `read` makes of each of these; one that cannot be read on costs only what follows in it.

        `read` is also given what tells how much of the export has been read, by the bytes of this file.
        """
        for name, why in self.refused:
            yield ReadCandidate(0, unreadable=why, place=self.place_of(name))
        for index, member in enumerate(members):
            done = self.done(members, index, 0)
            try:
                for one in read(member, partial(self.done, members, index)):
                    done = one.done
                    yield one
            except RecordRefused as error:
                yield ReadCandidate(done, unreadable=str(error), place=self.place(member))


def printable(text: str) -> str:
    """Without what a terminal obeys."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


@contextmanager
def opened_export(path: Path, zone: ZoneInfo) -> Iterator[Export]:
    """`zone`: of the times in a ZIP archive. InvalidInput if it is none of the three, or cannot be trusted."""
    if path.is_dir():
        members, refused = members_of(path)
        yield Export(path, sum(one.size for one in members), members, refused=refused)
        return
    if not path.is_file():
        raise InvalidInput(f"{path} is neither a file nor a directory. Check its name.")
    with ExitStack() as stack:
        handle: BinaryIO = stack.enter_context(open_input(path))
        status, first = path.stat(), handle.read(4)
        handle.seek(0)
        if first in MAGIC:
            archive, members = opened_zip(path, handle, zone)
            stack.enter_context(archive)
            yield Export(path, status.st_size, members)
        else:
            opener = cast("partial[BinaryIO]", partial(open_input, path))
            only = Member(path.name, status.st_size, opener, status.st_mtime)
            yield Export(path, status.st_size, [only], alone=True)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name.casefold(), pattern.casefold()) for pattern in patterns)


# ── A directory from anybody: no link in it is followed, and nothing in it is opened that is not a plain file.


#: Files and directories, pictures included.
MOST_FILES = 200_000
#: How deep the directories of an export are nested, at most.
_DEEPEST = 64


def members_of(root: Path) -> tuple[list[Member], list[tuple[str, str]]]:
    """The plain files below it in the order of their names, and what was refused: (path, why). Hidden ones (`.git`) are passed over.

    InvalidInput if it cannot be listed, or is larger than any export.
    """

    def unlisted(error: OSError) -> None:
        raise InvalidInput(f"{error.filename} cannot be listed: {error.strerror}. Check its permissions.") from error

    members, refused = list[Member](), list[tuple[str, str]]()
    inside, number = root.resolve(), 0
    for folder, folders, files in os.walk(root, onerror=unlisted):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if len(Path(folder).relative_to(root).parts) > _DEEPEST:
            raise InvalidInput(f"{root} is nested deeper than any export. Name the directory of the export alone.")
        entries = [Path(folder, name) for name in (*folders, *files) if not name.startswith(".")]
        number += len(entries)
        if number > MOST_FILES:
            raise InvalidInput(f"{root} holds more than {MOST_FILES} files. Name the directory of the export alone.")
        for path in entries:
            name, status = os.fsencode(path.relative_to(root)).decode("utf-8", "replace"), path.lstat()
            if stat.S_ISLNK(status.st_mode):
                if not Path(os.path.realpath(path)).is_relative_to(inside):
                    refused.append((name, "a link that leads out of the directory: it was not followed"))
            elif stat.S_ISREG(status.st_mode):
                members.append(Member(name, status.st_size, partial(open_plain, path), status.st_mtime))
            elif not stat.S_ISDIR(status.st_mode):
                refused.append((name, "not a plain file (a pipe, socket or device): it was not opened"))
    return sorted(members, key=lambda one: PurePosixPath(one.name).parts), refused


def open_plain(path: Path) -> BinaryIO:
    """A plain file, and never what took its place meanwhile: OSError for a link, a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "it is not a plain file")
    return os.fdopen(descriptor, "rb")
