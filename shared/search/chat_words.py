"""The words of each chat in a part of `lexical/`, by which a word of a question is met in other forms (word_forms.py), and its terms.

A row for each chat that shows another language than English; none else, so that an English release does not grow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shared.release.chunk_rows import unsealed, unsealed_bytes
from shared.system.keys import sealing
from shared.system.keys.sealing import chat_key
from shared.text.words.word_forms import ChatWords

if TYPE_CHECKING:
    from shared.search.chat_items import Stretch

SCHEMA = "CREATE TABLE words (chat_no INTEGER PRIMARY KEY, lines TEXT NOT NULL);"
#: With encryption, the postings have stand-ins for the terms; these are the terms.
SEALED_SCHEMA = "CREATE TABLE vocabulary (chat_no INTEGER PRIMARY KEY, terms BLOB NOT NULL);"
_WORDS, _TERMS = "words", "terms"


def write_vocabulary(connection: sqlite3.Connection, chat_no: int, chat_id: str, terms: Iterable[str]) -> None:
    """With encryption: the terms of one chat, in their order."""
    if sealing.is_on():
        sealed = sealing.seal(chat_key(chat_id), "\n".join(terms).encode(), _TERMS)
        connection.execute("INSERT INTO vocabulary (chat_no, terms) VALUES (?,?)", (chat_no, sealed))


def write_words(connection: sqlite3.Connection, chat_no: int, chat_id: str, texts: Iterable[str]) -> None:
    """Write the words of one chat's texts, as they are searched."""
    if words := ChatWords.of_texts(texts):
        lines = sealing.seal_text(chat_key(chat_id), words.lines, _WORDS)
        connection.execute("INSERT INTO words (chat_no, lines) VALUES (?,?)", (chat_no, lines))


def read_words(connection: sqlite3.Connection, chat_no: int) -> ChatWords | None:
    """None if the chat shows no language but English in this part."""
    row = connection.execute("SELECT lines FROM words WHERE chat_no = ?", (chat_no,)).fetchone()
    return ChatWords.of(unsealed(row[0], _WORDS)) if row else None


def read_vocabulary(connection: sqlite3.Connection, stretch: Stretch) -> str:
    """The terms of a chat's stretch, a line each, with an empty one ahead and behind."""
    if stretch.key:
        return "\n".join(["", *_sealed_terms(connection, stretch), ""])
    rows = connection.execute("SELECT term FROM postings WHERE chat_no = ?", (stretch.chat_no,))
    return "\n".join(["", *(term for (term,) in rows), ""])


def _sealed_terms(connection: sqlite3.Connection, stretch: Stretch) -> list[str]:
    row = connection.execute("SELECT terms FROM vocabulary WHERE chat_no = ?", (stretch.chat_no,)).fetchone()
    return unsealed_bytes(row[0], _TERMS).decode().split("\n") if row and row[0] else []


def containing(vocabulary: str, part: str) -> Iterator[str]:
    """The lines that a part of a word stands in."""
    at = vocabulary.find(part)
    while at >= 0:
        end = vocabulary.index("\n", at)
        yield vocabulary[vocabulary.rindex("\n", 0, at) + 1 : end]
        at = vocabulary.find(part, end)


def beginning(vocabulary: str, letters: str) -> Iterator[str]:
    """The lines that begin so."""
    at = vocabulary.find(f"\n{letters}")
    while at >= 0:
        end = vocabulary.index("\n", at + 1)
        yield vocabulary[at + 1 : end]
        at = vocabulary.find(f"\n{letters}", end)


def read_terms(connection: sqlite3.Connection, stretch: Stretch, beginning: str) -> list[str]:
    """The terms of a chat's stretch that begin so, in a part that is not sealed."""
    sql = "SELECT term FROM postings WHERE chat_no = ? AND term >= ? AND term < ?"
    return [term for (term,) in connection.execute(sql, (stretch.chat_no, beginning, beginning + "\U0010ffff"))]
