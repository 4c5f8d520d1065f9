"""The words of each chat in a part of `lexical/`, by which a word of a question is met in other forms (shared/text/word_forms.py).

A row for each chat that shows another language than English; none else, so that an English release does not grow.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from shared.text.word_forms import ChatWords

SCHEMA = "CREATE TABLE words (chat_no INTEGER PRIMARY KEY, lines TEXT NOT NULL);"


def write_words(connection: sqlite3.Connection, chat_no: int, texts: Iterable[str]) -> None:
    """Write the words of one chat's texts, as they are searched."""
    if words := ChatWords.of_texts(texts):
        connection.execute("INSERT INTO words (chat_no, lines) VALUES (?,?)", (chat_no, words.lines))


def read_words(connection: sqlite3.Connection, chat_no: int) -> ChatWords | None:
    """None if the chat shows no language but English in this part."""
    row = connection.execute("SELECT lines FROM words WHERE chat_no = ?", (chat_no,)).fetchone()
    return ChatWords.of(row[0]) if row else None
