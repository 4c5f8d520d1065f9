"""An export as people have it: the ZIP archive as it was downloaded, the directory that it was unpacked to, or the one file that matters.

A ZIP archive may come from anybody: its directory is judged before anything in it is read, and its files are read in place, as streams.

What is refused, and why: names that lead elsewhere, links, devices, several entries by one name, encryption, methods that cannot be unpacked in
pieces, more entries or a larger directory than an export has, more data than a disk has, data that unpack to far more than a text does, and
entries that share their data (D. Fifield, "A better zip bomb", WOOT 2019). Archives inside an archive are never opened. A length that an entry
declares is one that it keeps: zipfile reads no byte more and then compares the checksum.
"""

from __future__ import annotations

import os
import stat
import struct
import time
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast
from zoneinfo import ZoneInfo

from nightly.imports.candidates import ReadCandidate, open_input
from nightly.imports.containers.members import Member
from shared.errors import InvalidInput
from shared.text.format import size_text
from shared.turns.records import RecordRefused

#: With pictures, an export has some thousands.
MOST_ENTRIES = 50_000
#: The list of entries, which is in memory as a whole.
MOST_DIRECTORY_BYTES = 8 << 20
#: What all files unpack to.
MOST_BYTES = 64 << 30
#: Texts shrink to a tenth, tables to a fiftieth; DEFLATE can reach 1032. It counts for what unpacks to more than RATIO_FROM_BYTES.
MOST_RATIO, RATIO_FROM_BYTES = 200, 16 << 20
#: Both are read in pieces; the others unpack all at once what they are given.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1 | 0x40 | 0x2000
#: What begins a ZIP archive: a file, or the end of an empty one.
MAGIC = (b"PK\x03\x04", b"PK\x05\x06")


def opened_zip(path: Path, handle: BinaryIO, zone: ZoneInfo) -> tuple[zipfile.ZipFile, list[Member]]:
    """The archive and its files, without hidden ones and macOS's own. InvalidInput, with the reason, unless all of it can be trusted."""
    _judge_directory(path, handle)
    try:
        archive = zipfile.ZipFile(handle)
    except (zipfile.BadZipFile, ValueError, struct.error, EOFError, OSError, NotImplementedError) as error:
        raise _refused(path, "it is damaged or was cut off", "Download or copy it again") from error
    entries = archive.infolist()
    _judge_sizes(path, entries)
    names = set[str]()
    for entry in entries:
        if why := _why_refused(entry):
            raise _refused(path, f"an entry in it {why}", "An export has none such; make a new one")
        name = unicodedata.normalize("NFC", entry.filename).casefold().rstrip("/")
        if name in names:
            raise _refused(path, "two entries in it have the same name", "An export has none such; make a new one")
        names.add(name)
    files = [entry for entry in entries if not entry.is_dir() and not _is_hidden(entry.filename)]
    return archive, [_member(archive, entry, zone) for entry in files]


def _judge_directory(path: Path, handle: BinaryIO) -> None:
    """Look at how large the list of entries is, which `ZipFile` reads as a whole, from where Python itself finds it."""
    try:
        found = zipfile._EndRecData(handle)  # type: ignore[attr-defined]
    except (zipfile.BadZipFile, OSError, struct.error):
        found = None
    if not found:
        raise _refused(path, "its end is missing: it was cut off", "Download or copy it again")
    _, _, _, _, entries, directory, *_ = found
    handle.seek(0)
    if entries > MOST_ENTRIES or directory > MOST_DIRECTORY_BYTES:
        raise _refused(
            path, f"it has more than {MOST_ENTRIES} entries, or very long names", "Unpack it, and name the directory"
        )


def _judge_sizes(path: Path, entries: list[zipfile.ZipInfo]) -> None:
    if len(entries) > MOST_ENTRIES:  # whatever its end says
        raise _refused(path, f"it has more than {MOST_ENTRIES} entries", "Unpack it, and name the directory")
    unpacked, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if unpacked > MOST_BYTES:
        raise _refused(path, f"it unpacks to {size_text(unpacked)}", "No export is that large")
    if packed > path.stat().st_size:
        raise _refused(path, "its entries overlap", "An archive like this is made to fill disks; make a new export")
    for size, small in [(unpacked, packed), *((entry.file_size, entry.compress_size) for entry in entries)]:
        if size > RATIO_FROM_BYTES and size > MOST_RATIO * max(small, 1):
            raise _refused(
                path,
                f"it unpacks to more than {MOST_RATIO} times its size",
                "An archive like this is made to fill disks; if it is yours, unpack it, and name the directory",
            )


def _why_refused(entry: zipfile.ZipInfo) -> str | None:
    """What is wrong with an entry; never its name, which may be anything."""
    name, mode = entry.orig_filename, entry.external_attr >> 16
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        return "has a name with control characters"
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or (len(parts[0]) == 2 and parts[0][1] == ":"):
        return "has an absolute path"
    if ".." in parts:
        return "has a path that leads out of the archive (..)"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a link" if stat.S_ISLNK(mode) else "is a device or a pipe"
    if entry.flag_bits & _ENCRYPTED:
        return "is encrypted; make the archive without a password"
    if entry.compress_type not in _METHODS:
        return "is compressed by a method other than DEFLATE; pack it again, or unpack it and name the directory"
    return None


def _is_hidden(name: str) -> bool:
    parts = name.replace("\\", "/").split("/")
    return parts[0] == "__MACOSX" or any(part.startswith(".") for part in parts)


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, zone: ZoneInfo) -> Member:
    opener = cast("partial[BinaryIO]", partial(archive.open, entry))
    name = str(PurePosixPath(entry.filename.replace("\\", "/")))
    return Member(name, entry.file_size, opener, _modified(entry, zone))


def _modified(entry: zipfile.ZipInfo, zone: ZoneInfo) -> float | None:
    """An archive has local times without a zone."""
    try:
        at = datetime(*entry.date_time, tzinfo=zone).timestamp()
    except ValueError:
        return None
    unknown = at < 315_619_200  # 1980-01-02: what is not known is written as 1980-01-01
    return None if unknown or at > time.time() + 86_400 else at


def _refused(path: Path, what: str, advice: str) -> InvalidInput:
    return InvalidInput(f"{path} is refused: {what}. {advice}. Nothing was imported.")


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

    def each(self, members: list[Member], read: Callable[[Member], Iterator[ReadCandidate]]) -> Iterator[ReadCandidate]:
        """What was not opened, then what `read` makes of each of these; one that cannot be read on costs only what follows in it.

        `read` yields what is done and the places within the file.
        """
        for name, why in self.refused:
            yield ReadCandidate(0, unreadable=why, place=self.place_of(name))
        total, before = sum(one.size for one in members) or 1, 0
        for member in members:
            done = 0
            try:
                for one in read(member):
                    done = one.done
                    yield self._placed(one, member, before, total)
            except RecordRefused as error:
                yield self._placed(ReadCandidate(done, unreadable=str(error)), member, before, total)
            before += member.size

    def _placed(self, one: ReadCandidate, member: Member, before: int, total: int) -> ReadCandidate:
        one.place = self.place(member) + one.place
        one.done = min(self.size, self.size * (before + one.done) // total)
        return one


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
