"""The words of each chat in a part of `lexical/`, by which a word of a question is met in other forms (word_forms.py), and its terms.

A row for each chat that shows another language than English; none else, so that an English release does not grow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shared.text.words.word_forms import ChatWords

if TYPE_CHECKING:
    from shared.search.chat_items import Stretch

SCHEMA = "CREATE TABLE words (chat_no INTEGER PRIMARY KEY, lines TEXT NOT NULL);"


def write_words(connection: sqlite3.Connection, chat_no: int, texts: Iterable[str]) -> None:
    """Write the words of one chat's texts, as they are searched."""
    if words := ChatWords.of_texts(texts):
        connection.execute("INSERT INTO words (chat_no, lines) VALUES (?,?)", (chat_no, words.lines))


def read_words(connection: sqlite3.Connection, chat_no: int) -> ChatWords | None:
    """None if the chat shows no language but English in this part."""
    row = connection.execute("SELECT lines FROM words WHERE chat_no = ?", (chat_no,)).fetchone()
    return ChatWords.of(row[0]) if row else None


def read_vocabulary(connection: sqlite3.Connection, stretch: Stretch) -> str:
    """The terms of a chat's stretch, a line each, with an empty one ahead and behind."""
    rows = connection.execute("SELECT term FROM postings WHERE chat_no = ?", (stretch.chat_no,))
    return "\n".join(["", *(term for (term,) in rows), ""])


def containing(vocabulary: str, part: str) -> Iterator[str]:
    """The lines that a part of a word stands in."""
    at = vocabulary.find(part)
    while at >= 0:
        end = vocabulary.index("\n", at)
        yield vocabulary[vocabulary.rindex("\n", 0, at) + 1 : end]
        at = vocabulary.find(part, end)


def read_terms(connection: sqlite3.Connection, stretch: Stretch, beginning: str) -> list[str]:
    """The terms of a chat's stretch that begin so."""
    sql = "SELECT term FROM postings WHERE chat_no = ? AND term >= ? AND term < ?"
    return [term for (term,) in connection.execute(sql, (stretch.chat_no, beginning, beginning + "\U0010ffff"))]
