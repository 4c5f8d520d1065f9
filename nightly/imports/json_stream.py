"""A JSON document of any size, read piece by piece: ijson's events, and from them values as `loads_object` (shared/wire/json.py) would make them.

What ijson or its parser takes otherwise is settled in the bytes, before it sees them: `\\xNN`, which Telegram Desktop writes for control
characters and which is not JSON; half of a surrogate pair, which the parser would replace by a question mark; two control characters, which it would
skip as blanks; and integers that Python refuses for their length, over which ijson's C code crashes.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Protocol

import ijson

from shared.turns.records import RecordRefused

_PIECE = 1 << 16
#: How deep orjson reads, which reads all other JSON here.
_DEPTH = 1024
#: An integer that orjson keeps as one; any other becomes a float.
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1
_OPENING, _CLOSING = ("start_map", "start_array"), ("end_map", "end_array")

#: Stands before the four digits of half a pair while the parser has it. It is no character, and before its own digits it means itself.
_MARK = "\ufdd0"
_MARK_BYTES = _MARK.encode("utf-8")
_MARKED = re.compile(f"{_MARK}([0-9A-Fa-f]{{4}})")
_ESCAPE = re.compile(
    rb"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|\\.|"
    + _MARK_BYTES,
    re.DOTALL,
)
#: All that escapes and the mark are made of: after any other byte, none of them is cut in two.
_OF_ESCAPES = b"\\0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" + _MARK_BYTES
#: The parser takes these for blanks; it refuses a null byte.
_NO_BLANKS = bytes.maketrans(b"\v\f", b"\0\0")
#: A line's end, which nothing minds but a string that is not closed: behind the document the parser would not see that one.
_END = b"\n"
#: So many digits Python takes for an integer, whatever its limit is. An escape among more of them is the same in a string, and breaks a number.
_DIGITS = sys.int_info.str_digits_check_threshold
_MORE_DIGITS = re.compile(rb"([0-9]{%d})([0-9])" % _DIGITS)
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")


class _NotUtf8(RecordRefused):
    pass


class ByteSource(Protocol):
    """What a document is read from: an open file, or what behaves like one."""

    def seek(self, offset: int, /) -> int: ...

    def read(self, size: int, /) -> bytes: ...


class _Bytes:
    """The file as the parser is to see it, from a position on."""

    def __init__(self, handle: ByteSource, start: int) -> None:
        handle.seek(start)
        self._handle, self._held, self._read, self._utf8 = handle, b"", 0, codecs.getincrementaldecoder("utf-8")()
        self._ended = False
        self.marked = False  # whether a mark has been written so far
        self.last = (0, 0)  # where the piece lies that was read last

    def read(self, size: int) -> bytes:
        """A piece, longer than `size` perhaps; empty at the end, and for a size of 0, by which ijson sees that these are bytes."""
        while size and not self._ended:
            piece = self._handle.read(max(size, len(self._held)))
            self._check(piece)
            self._ended = not piece
            data = self._held + (piece or _END)
            end = len(data.rstrip(_OF_ESCAPES)) if piece else len(data)
            self._held = data[end:]
            if end or not piece:
                self.last = (self._read - len(data) + self._ended, self._read - len(self._held))
                return self._settled(data[:end])
        return b""

    def refusal(self, error: Exception) -> RecordRefused:
        """Why the document is refused; as everywhere, first of all because it is not UTF-8."""
        place = "between byte {} and byte {}".format(*self.last)
        try:
            while not isinstance(error, _NotUtf8) and self.read(_PIECE):
                pass
        except _NotUtf8 as wrong:
            return wrong
        # What the parser says of it quotes the file, and no report contains what somebody wrote.
        return error if isinstance(error, RecordRefused) else RecordRefused(f"not JSON: it is broken {place}")

    def _check(self, piece: bytes) -> None:
        begun = self._read - len(self._utf8.getstate()[0])
        try:
            self._utf8.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            raise _NotUtf8(f"not UTF-8 at byte {begun + error.start}") from error
        self._read += len(piece)

    def _settled(self, data: bytes) -> bytes:
        if b"0" * (_DIGITS + 1) in data.translate(_AS_ZEROS):
            data = _MORE_DIGITS.sub(rb"\1\\u003\2", data)
        if b"\\u" in data or b"\\x" in data or _MARK_BYTES in data:
            data = _ESCAPE.sub(self._as_parsed, data)
        return data.translate(_NO_BLANKS)

    def _as_parsed(self, found: re.Match[bytes]) -> bytes:
        unicode, control = found.groups()
        if control:
            return b"\\u00" + bytes(control)
        if found[0] == _MARK_BYTES:
            unicode = b"fdd0"
        elif not unicode or not (0xD800 <= int(unicode, 16) < 0xE000 or int(unicode, 16) == ord(_MARK)):
            return found[0]
        self.marked = True
        return _MARK_BYTES + bytes(unicode)


class JsonStream:
    """The document's events in order. Whoever is given the event that begins a value reads that value, by a method, before the next event.

    All methods raise RecordRefused, with the reason that `loads_object` gives, except for where JSON is broken.
    """

    def __init__(self, handle: ByteSource, start: int) -> None:
        self._bytes = _Bytes(handle, start)
        self._events = self._guarded()
        self._depth = 0  # of the objects and lists that members() and elements() are in

    def document(self) -> Iterator[tuple[str, str, Any]]:
        """Its members, as of any object. Its end is read, too: something may follow it."""
        event, value = next(self._events)
        if event == "start_map":
            yield from self.members()
        else:
            self.skip(event)
        for _ in self._events:
            pass
        if event != "start_map":
            found = "list" if event == "start_array" else type(self.value(event, value)).__name__
            raise RecordRefused(f"a JSON object was expected, not {found}")

    def begin(self) -> tuple[str, Any]:
        """The event that begins the document."""
        return next(self._events)

    def end(self) -> None:
        """Read what follows the document's value, which may be nothing."""
        for _ in self._events:
            pass

    def members(self) -> Iterator[tuple[str, str, Any]]:
        """(key, event, value) of each member of an object that has begun; the value of an object or list is None."""
        self._depth += 1
        for event, key in self._events:
            if event == "end_map":
                break
            yield (self._text(key), *next(self._events))
        self._depth -= 1

    def elements(self) -> Iterator[tuple[str, Any]]:
        """(event, value) of each element of a list that has begun."""
        self._depth += 1
        for event, value in self._events:
            if event == "end_array":
                break
            yield event, value
        self._depth -= 1

    def skip(self, event: str) -> None:
        """The rest of the value that this event began."""
        opened = self._opened(0) if event in _OPENING else 0
        while opened:
            event, _ = next(self._events)
            if event in _OPENING:
                opened = self._opened(opened)
            elif event in _CLOSING:
                opened -= 1

    def value(self, event: str, value: Any) -> Any:
        """The value that this event began."""
        if event not in _OPENING:
            return self._scalar(event, value)
        whole = made = _container(event)
        inside, key = [whole], ""
        self._opened(0)
        for event, value in self._events:
            if event == "map_key":
                key = self._text(value)
                continue
            if event in _CLOSING:
                inside.pop()
                if not inside:
                    break
                continue
            made = _container(event) if event in _OPENING else self._scalar(event, value)
            holder = inside[-1]
            if isinstance(holder, dict):
                holder[key] = made
            else:
                holder.append(made)
            if event in _OPENING:
                self._opened(len(inside))
                inside.append(made)
        return whole

    def _opened(self, opened: int) -> int:
        """One more object or list is open."""
        if self._depth + opened >= _DEPTH:
            raise self._bytes.refusal(RecordRefused("nested too deep"))
        return opened + 1

    def _text(self, parsed: str) -> str:
        return _MARKED.sub(_unmarked, parsed) if self._bytes.marked and _MARK in parsed else parsed

    def _scalar(self, event: str, value: Any) -> Any:
        if event == "string":
            return self._text(value)
        if event == "number" and (isinstance(value, Decimal) or not _SMALLEST <= value <= _LARGEST):
            return float(str(value))
        return value

    def _guarded(self) -> Iterator[tuple[str, Any]]:
        try:
            yield from ijson.basic_parse(self._bytes, buf_size=_PIECE)
        except (ijson.JSONError, ValueError, ArithmeticError) as error:
            raise self._bytes.refusal(error) from error


def _container(event: str) -> dict[str, Any] | list[Any]:
    return {} if event == "start_map" else []


def _unmarked(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))
