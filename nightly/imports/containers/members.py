"""One file of an export, wherever it lies, and its bytes as a stream that a hostile or damaged file cannot make large, endless, or fail oddly."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, BinaryIO
from zipfile import BadZipFile

from nightly.imports.candidates import BOM
from shared.turns.records import RecordRefused

#: The longest string, line or message, in bytes: anything longer was not written by a person, and would have to be in memory whole.
MOST_TEXT_BYTES = 16 << 20

#: By so much of it a file is recognised.
BEGINNING_BYTES = 1 << 16

#: What reading a damaged archive or disk raises.
_DAMAGE = (BadZipFile, zlib.error, EOFError, OSError, NotImplementedError)


@dataclass(frozen=True)
class Member:
    """`name`: its path in the export, with `/`. `size` in bytes. `modified`: POSIX seconds, None where it is not known."""

    name: str
    size: int
    opener: Callable[[], BinaryIO]
    modified: float | None = None

    @property
    def base(self) -> str:
        return PurePosixPath(self.name).name

    @property
    def folder(self) -> str:
        """The name of the folder it lies in; "" at the top."""
        return PurePosixPath(self.name).parent.name

    @cached_property
    def beginning(self) -> bytes:
        """Without a byte order mark. RecordRefused if it cannot be read."""
        with closing(self.open()) as stream:
            return io.BufferedReader(stream, BEGINNING_BYTES).read(BEGINNING_BYTES).removeprefix(BOM)

    def open(self) -> MemberStream:
        """RecordRefused if it cannot be opened."""
        try:
            return MemberStream(self.opener())
        except _DAMAGE as error:
            raise RecordRefused(f"it cannot be opened: {_why(error)}") from error

    def lines(self) -> Iterator[tuple[int, str | None, int]]:
        """(number from 1, line without its end, bytes so far), as text; None for a line that is too long. RecordRefused if it is no text in UTF-8."""
        with closing(self.open()) as stream:
            reader = io.BufferedReader(stream, 1 << 16)
            number = done = 0
            while raw := reader.readline(MOST_TEXT_BYTES + 1):
                number, done, too_long = number + 1, done + len(raw), len(raw) > MOST_TEXT_BYTES
                while too_long and not raw.endswith(b"\n") and (raw := reader.readline(1 << 16)):
                    done += len(raw)
                yield number, None if too_long else _line(raw, number), done

    def text(self) -> str:
        """All of it. RecordRefused if it is longer than MOST_TEXT_BYTES, or no text in UTF-8."""
        with closing(self.open()) as stream:
            content = bytearray()
            while piece := stream.read(1 << 16):
                content += piece
                if len(content) > MOST_TEXT_BYTES:
                    raise RecordRefused(f"it is longer than {MOST_TEXT_BYTES >> 20} MiB")
        return _decoded(bytes(content).removeprefix(BOM), 0)


class MemberStream(io.RawIOBase):
    """Its bytes. Whatever goes wrong is a RecordRefused that says why, and stays one: a reader that reads on gets it again.

    `guarded`: refuse the rest once MOST_TEXT_BYTES have been read without `progress()`, because the parser of JSON collects them.
    """

    def __init__(self, handle: BinaryIO) -> None:
        self._handle, self._failed, self._since, self.done = handle, "", 0, 0
        self.guarded = False

    def progress(self) -> None:
        self._since = 0

    def read(self, size: int = -1) -> bytes:
        if self._failed:
            raise RecordRefused(self._failed)
        try:
            piece = self._handle.read(size)
        except _DAMAGE as error:
            self._failed = f"it is damaged or cut off after byte {self.done}: {_why(error)}"
            raise RecordRefused(self._failed) from error
        self.done += len(piece)
        self._since += len(piece)
        if self.guarded and self._since > MOST_TEXT_BYTES:
            self._failed = f"one value in it is longer than {MOST_TEXT_BYTES >> 20} MiB (before byte {self.done})"
            raise RecordRefused(self._failed)
        return piece

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._handle.close()
        super().close()


def _line(raw: bytes, number: int) -> str:
    bare = raw.removesuffix(b"\n").removesuffix(b"\r")
    return _decoded(bare.removeprefix(BOM) if number == 1 else bare, number)


def _decoded(raw: bytes, number: int) -> str:
    place = f" of line {number}, and what follows was not read" if number else ""
    if b"\0" in raw:
        raise RecordRefused(
            f"a null byte at byte {raw.index(0)}{place}: it is no text in UTF-8, and must be saved as such"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordRefused(f"not UTF-8 at byte {error.start}{place}") from error


def _why(error: Exception) -> str:
    """In a few words; what the library says of an archive may quote names in it, so only the disk's reason is passed on."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "its data do not match their checksum" if "CRC" in str(error) else "its data cannot be unpacked"
