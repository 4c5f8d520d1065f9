"""A chunk as a row of a table of a release: as shared/turns/chunk.py has it, or with its words sealed with the key of its chat.

A sealed row has all that anybody said or is called in the column `text`; ids, times and the number of the passage stay readable.
"""

from __future__ import annotations

import sqlite3
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from shared.system.keys import sealing
from shared.system.keys.sealing import TEXT_MARK, KeyDestroyed, chat_key
from shared.turns.chunk import COLUMNS, Chunk, chunk_of, values_of

_NAMES = COLUMNS.split(", ")
_ID, _CHAT, _TEXT = (_NAMES.index(name) for name in ("chunk_id", "chat_id", "text"))
#: What is sealed together, and what stands in its place.
_SEALED = tuple(_NAMES.index(name) for name in ("text", "speaker", "user_id", "origin"))
_EMPTY = ("", "", None, None)


def stored_values(chunk: Chunk) -> tuple[Any, ...]:
    """A chunk as a row of `COLUMNS`."""
    values = values_of(chunk)
    if not sealing.is_on():
        return values
    row = list(values)
    words = orjson.dumps([row[at] for at in _SEALED]).decode()
    for at, empty in zip(_SEALED, _EMPTY, strict=True):
        row[at] = empty
    row[_TEXT] = sealing.seal_text(chat_key(chunk.chat_id), words, _about(chunk.chunk_id))
    return tuple(row)


def read_chunk(row: Sequence[Any]) -> Chunk:
    """The chunk of such a row; KeyDestroyed if its chat was forgotten, sqlite3.DatabaseError if it is damaged."""
    text = row[_TEXT]
    if not text.startswith(TEXT_MARK):
        return chunk_of(row)
    values = list(row)
    for at, value in zip(_SEALED, orjson.loads(unsealed(text, _about(row[_ID]))), strict=True):
        values[at] = value
    return chunk_of(values)


def read_chunks(rows: Iterable[Sequence[Any]]) -> Iterator[Chunk]:
    """The chunks of such rows; those of a chat that was forgotten are left out."""
    for row in rows:
        try:
            yield read_chunk(row)
        except KeyDestroyed:
            continue


def text_of(chunk_id: str, text: str) -> str | None:
    """The text of a chunk, given the column `text`; None if its chat was forgotten."""
    if not text.startswith(TEXT_MARK):
        return text
    try:
        return str(orjson.loads(unsealed(text, _about(chunk_id)))[0])
    except KeyDestroyed:
        return None


def unsealed(text: str, about: str) -> str:
    """KeyDestroyed, EncryptionKeyMissing; sqlite3.DatabaseError if it is damaged."""
    return unsealed_bytes(b64decode(text[len(TEXT_MARK) :]), about).decode() if text.startswith(TEXT_MARK) else text


def unsealed_bytes(data: bytes, about: str) -> bytes:
    """The same of bytes."""
    try:
        return sealing.unseal(data, about)
    except ValueError as error:
        raise sqlite3.DatabaseError(f"{about}: {error}") from error


def _about(chunk_id: str) -> str:
    return f"chunk {chunk_id}"
