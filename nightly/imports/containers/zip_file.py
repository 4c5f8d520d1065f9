"""A ZIP archive from anybody: its directory is judged before anything in it is read, and its files are read in place, as streams.

What is refused, and why: names that lead elsewhere, links, devices, several entries by one name, encryption, methods that cannot be unpacked in
pieces, more entries or a larger directory than an export has, more data than a disk has, data that unpack to far more than a text does, and
entries that share their data (D. Fifield, "A better zip bomb", WOOT 2019). Archives inside an archive are never opened. A length that an entry
declares is one that it keeps: zipfile reads no byte more and then compares the checksum.
"""

from __future__ import annotations

import stat
import struct
import time
import unicodedata
import zipfile
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast
from zoneinfo import ZoneInfo

from nightly.imports.containers.members import Member
from shared.errors import InvalidInput
from shared.text.format import size_text

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
