"""One entry of the journal and its line. Every line is made by `line_of` and read by `entry_of`, and nowhere else.

A line is eight hex digits (CRC-32 of the rest) and JSON: `{"n", "at", "kind", "chat", …}`. `n` counts the journal's entries, `chat` is the one
that an entry belongs to, null for one of no chat. With encryption (docs/encryption.md) the JSON is sealed with the key of the chat: `~`, the number,
a space, base64.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

from shared.system.keys import sealing
from shared.system.keys.sealing import KeyDestroyed, chat_key
from shared.wire.json import RecordRefused, dumps, loads_object

#: What an entry says; docs/second-copy.md has the table.
TURN, FLUSHED, NIGHT, TASK, KEY, TOMBSTONE, STORE, MARK = (
    "turn",
    "flushed",
    "night",
    "task",
    "key",
    "tombstone",
    "store",
    "mark",
)
#: What is left of an entry whose chat's key was destroyed.
FORGOTTEN = "forgotten"
_CRC_DIGITS = 8
#: The key of entries of no chat, and what entries are sealed as.
JOURNAL = "journal"


@dataclass(frozen=True)
class JournalEntry:
    """`at` in POSIX seconds; `data`: the fields of its kind."""

    number: int
    at: float
    kind: str
    chat: str | None
    data: dict[str, Any]


def line_of(entry: JournalEntry) -> bytes:
    """The bytes of an entry, with the end of the line."""
    fields = {"n": entry.number, "at": entry.at, "kind": entry.kind, "chat": entry.chat}
    body = dumps(fields | entry.data)
    if sealing.is_on():
        key = JOURNAL if entry.chat is None else chat_key(entry.chat)
        body = b"~%d %b" % (entry.number, base64.b64encode(sealing.seal(key, body, JOURNAL)))
    return b"%08x %b\n" % (zlib.crc32(body), body)


def entry_of(line: bytes) -> JournalEntry | None:
    """The entry of a line without its end; None for a torn or damaged one. One of a chat that was forgotten says nothing but its number."""
    try:
        if len(line) <= _CRC_DIGITS or int(line[:_CRC_DIGITS], 16) != zlib.crc32(line[_CRC_DIGITS + 1 :]):
            return None
        body = line[_CRC_DIGITS + 1 :]
        if body.startswith(b"~"):
            name, _, sealed = body[1:].partition(b" ")
            try:
                body = sealing.unseal(base64.b64decode(sealed, validate=True), JOURNAL)
            except KeyDestroyed:
                return JournalEntry(int(name), 0.0, FORGOTTEN, None, {})
        fields = loads_object(body)
        number, at, kind, chat = (fields.pop(name) for name in ("n", "at", "kind", "chat"))
        return JournalEntry(int(number), float(at), str(kind), None if chat is None else str(chat), fields)
    except (RecordRefused, ValueError, TypeError, KeyError):
        return None


def packed(raw: bytes) -> str | dict[str, str]:
    """Bytes as JSON has them: text, or base64 where they are not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode("ascii")}


def unpacked(value: str | dict[str, str]) -> bytes:
    """The bytes again."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode("utf-8")
