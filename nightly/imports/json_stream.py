"""A JSON document of any size, read piece by piece: ijson's events, and the values that they make.

What ijson's parser does not take is settled in the bytes, before it sees them: `\\xNN`, which Telegram Desktop writes for control characters and
which is not JSON; half of a surrogate pair, which is no character and becomes U+FFFD; and integers that Python refuses for their length, over which
ijson's C code crashes.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any, BinaryIO

import ijson

from nightly.imports.candidates import BOM
from shared.turns.records import RecordRefused

_PIECE = 1 << 16
#: How deep orjson reads, which reads all other JSON here.
_DEPTH = 1024
_OUTLINE, _LONGEST_NAME = 6, 80
_OPENING, _CLOSING = ("start_map", "start_array"), ("end_map", "end_array")

_ESCAPE = re.compile(
    rb"\\u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|(?P<half>\\u[Dd][89A-Fa-f][0-9A-Fa-f]{2})"
    rb"|\\x(?P<control>[0-9A-Fa-f]{2})|\\.",
    re.DOTALL,
)
#: All that escapes are made of: after any other byte, none of them is cut in two.
_OF_ESCAPES = b"\\0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: So many digits Python takes for an integer, whatever its limit is. An escape among more of them is the same in a string, and breaks a number.
_DIGITS = sys.int_info.str_digits_check_threshold
_MORE_DIGITS = re.compile(rb"([0-9]{%d})([0-9])" % _DIGITS)
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
#: An integer that orjson, which reads all other JSON here, keeps as one; any other becomes a float.
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1


class _Bytes:
    """The file as the parser is to see it, without a byte order mark. `done`: bytes read so far."""

    def __init__(self, handle: BinaryIO | io.RawIOBase) -> None:
        first = handle.read(len(BOM)) or b""
        self._handle, self._held, self.done = handle, first.removeprefix(BOM), len(first)

    def read(self, size: int) -> bytes:
        """A piece, longer than `size` perhaps; empty at the end, and for a size of 0, by which ijson sees that these are bytes."""
        while size:
            piece = self._handle.read(max(size, len(self._held))) or b""
            self.done += len(piece)
            data = self._held + piece
            end = len(data.rstrip(_OF_ESCAPES)) if piece else len(data)
            self._held = data[end:]
            if end or not piece:
                data = data[:end]
                if b"0" * (_DIGITS + 1) in data.translate(_AS_ZEROS):
                    data = _MORE_DIGITS.sub(rb"\1\\u003\2", data)
                return _ESCAPE.sub(_settled, data) if b"\\" in data else data
        return b""


def _settled(found: re.Match[bytes]) -> bytes:
    if found["half"]:
        return b"\\ufffd"
    return b"\\u00" + found["control"] if found["control"] else found[0]


def _number(value: int | Decimal) -> int | float:
    return value if isinstance(value, int) and _SMALLEST <= value <= _LARGEST else float(Decimal(value))


class JsonStream:
    """The document's events in order. Whoever is given the event that begins a value reads that value, by a method, before the next event.

    All methods raise RecordRefused if the JSON is broken, with a reason that has no word of it.
    """

    def __init__(self, handle: BinaryIO | io.RawIOBase) -> None:
        self._bytes = _Bytes(handle)
        self._events = self._guarded()

    def begin(self) -> tuple[str, Any]:
        """The event that begins the document."""
        return next(self._events)

    def end(self) -> None:
        """Read what follows the document's value, which may be nothing."""
        for _ in self._events:
            pass

    def members(self) -> Iterator[tuple[str, str, Any]]:
        """(key, event, value) of each member of an object that has begun; the value of an object or list is None."""
        for event, key in self._events:
            if event == "end_map":
                break
            yield (key, *next(self._events))

    def elements(self) -> Iterator[tuple[str, Any]]:
        """(event, value) of each element of a list that has begun."""
        for event, value in self._events:
            if event == "end_array":
                break
            yield event, value

    def skip(self, event: str, progress: Callable[[], None] = lambda: None) -> None:
        """The rest of the value that this event began. `progress`: called for each value in it."""
        opened = int(event in _OPENING)
        while opened:
            event, _ = next(self._events)
            progress()
            opened += (event in _OPENING) - (event in _CLOSING)

    def value(self, event: str, value: Any) -> Any:
        """The value that this event began."""
        if event not in _OPENING:
            return value
        builder = ijson.ObjectBuilder()
        builder.event(event, value)
        while builder.containers:
            builder.event(*next(self._events))
            if len(builder.containers) > _DEPTH:
                raise RecordRefused("nested too deep")
        return builder.value

    def outline(self) -> frozenset[str]:
        """The paths of its values, those of a list as `[]`, as far as the document is whole; of what is deeper than _OUTLINE nothing,
        and of a name its beginning."""
        found, names = set[str](), list[str]()
        with suppress(RecordRefused):
            for event, value in self._events:
                if event == "map_key":
                    names[-1] = value[:_LONGEST_NAME]
                elif event in _CLOSING:
                    names.pop()
                else:
                    found |= {".".join(names)} if len(names) <= _OUTLINE else set()
                    names += ["[]" if event == "start_array" else ""] if event in _OPENING else []
        return frozenset(found)

    def _guarded(self) -> Iterator[tuple[str, Any]]:
        try:
            for event, value in ijson.basic_parse(self._bytes, buf_size=_PIECE):
                yield event, _number(value) if event == "number" else value
        except RecordRefused:
            raise
        except (ijson.JSONError, ValueError) as error:
            # What the parser says of it quotes the file, and no report contains what somebody wrote.
            why = "not UTF-8" if isinstance(error, UnicodeDecodeError) or "UTF8" in str(error) else "not JSON"
            raise RecordRefused(f"{why}: it is broken before byte {self._bytes.done}") from error
