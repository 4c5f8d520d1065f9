"""`lexical.sqlite`: the chunks of a release and their full-text index, scoped by chat.

The file is built closed (`journal_mode=DELETE`, nothing beside it) and read with `mode=ro&immutable=1`, which works on a read-only
mount. FTS5 would rank every chat's matches before a join could drop them, so each row carries its chat's number as a token of its own
column and the query asks for it: other chats' rows are never matched, and every row's chat id is compared again on the way out.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from shared.errors import LedgerMismatch
from shared.integrity import check_database, damage_named, open_closed
from shared.ranking import Match, query_terms

SCHEMA = """
CREATE TABLE chats (chat_no INTEGER PRIMARY KEY, chat_id TEXT NOT NULL UNIQUE);
CREATE TABLE chunks (
  chunk_no INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL UNIQUE, chat_id TEXT NOT NULL, exchange TEXT NOT NULL,
  turn_ids TEXT NOT NULL, role TEXT NOT NULL, speaker TEXT NOT NULL, text TEXT NOT NULL,
  started_at REAL NOT NULL, ended_at REAL NOT NULL, passage INTEGER NOT NULL, passages INTEGER NOT NULL
);
CREATE INDEX chunks_by_exchange ON chunks (chat_id, exchange, role, passage);
CREATE VIRTUAL TABLE chunks_fts USING fts5(chat, body, content='', tokenize='porter unicode61 remove_diacritics 2');
"""

_COLUMNS = "chunk_id, chat_id, exchange, turn_ids, role, speaker, text, started_at, ended_at, passage, passages"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Chunk:
    """A turn, or a passage of a long turn. Times are POSIX seconds; `exchange` is the task id that pairs question and answer."""

    chunk_id: str
    chat_id: str
    exchange: str
    turn_ids: tuple[str, ...]
    role: str
    speaker: str
    text: str
    started_at: float
    ended_at: float
    passage: int = 1
    passages: int = 1


def build(path: Path, rows: Iterable[tuple[Chunk, str]]) -> None:
    """Write `lexical.sqlite` from (chunk, indexed text) pairs, in the order given, and close it; `check` proves it."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.executescript(SCHEMA)
        chats: dict[str, int] = {}
        for number, (chunk, indexed) in enumerate(rows, start=1):
            chat_no = chats.setdefault(chunk.chat_id, len(chats) + 1)
            connection.execute(
                f"INSERT INTO chunks (chunk_no, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608 - constants
                (
                    number,
                    chunk.chunk_id,
                    chunk.chat_id,
                    chunk.exchange,
                    orjson.dumps(chunk.turn_ids).decode(),
                    chunk.role,
                    chunk.speaker,
                    chunk.text,
                    chunk.started_at,
                    chunk.ended_at,
                    chunk.passage,
                    chunk.passages,
                ),
            )
            connection.execute(
                "INSERT INTO chunks_fts (rowid, chat, body) VALUES (?,?,?)", (number, f"c{chat_no}", indexed)
            )
        connection.executemany("INSERT INTO chats (chat_no, chat_id) VALUES (?,?)", [(n, c) for c, n in chats.items()])
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('optimize')")
        connection.commit()
    finally:
        connection.close()


def check(path: Path, scratch: Path, chunks_per_chat: Mapping[str, int]) -> dict[str, int]:
    """Prove the closed file: rows by keyword of each chat, as the index answers; the file stays as it is.

    LedgerMismatch if a chat's chunks are not all there, or others are; StorageError if the file is damaged. FTS5 proves its index in a
    writing statement only, so that is asked of a copy in the directory `scratch`.
    """
    check_database(path)
    with damage_named(path), closing(open_closed(path)) as connection:
        stored = dict(connection.execute("SELECT chat_id, count(*) FROM chunks GROUP BY chat_id").fetchall())
        numbers = dict(connection.execute("SELECT chat_id, chat_no FROM chats").fetchall())
        found = {chat_id: _own_rows(connection, chat_id, number) for chat_id, number in numbers.items()}
        (rows,) = connection.execute("SELECT count(*) FROM chunks_fts_docsize").fetchone()
    if not stored == found == dict(chunks_per_chat) or rows != sum(found.values()):
        raise LedgerMismatch(
            f"lexical.sqlite holds {sum(stored.values())} chunks of {len(stored)} chats and finds {sum(found.values())} by keyword; "
            f"{sum(chunks_per_chat.values())} of {len(chunks_per_chat)} were made. Nothing was published; run the night again."
        )
    copy = scratch / path.name
    shutil.copyfile(path, copy)
    with damage_named(path), closing(sqlite3.connect(copy)) as connection:
        connection.execute("INSERT INTO chunks_fts (chunks_fts) VALUES ('integrity-check')")
    copy.unlink()
    return found


def _own_rows(connection: sqlite3.Connection, chat_id: str, chat_no: int) -> int:
    """How many rows answer to the chat's token; -1 if one of them is of another chat."""
    found, own = connection.execute(
        "SELECT count(*), coalesce(sum(c.chat_id = ?), 0) FROM chunks_fts LEFT JOIN chunks AS c ON c.chunk_no = chunks_fts.rowid"
        " WHERE chunks_fts MATCH ?",
        (chat_id, f'chat:"c{chat_no}"'),
    ).fetchone()
    return int(found) if found == own else -1


class LexicalIndex:
    """Reader of one release's `lexical.sqlite`. May be used from several threads."""

    def __init__(self, path: Path) -> None:
        self._connection = open_closed(path)
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:
        """The chat's best keyword matches, best first; score is BM25 (higher is better)."""
        terms = query_terms(_WORD.findall(query))
        chat_no = self._chat_no(chat_id)
        if not terms or chat_no is None:
            return []
        words = " OR ".join(f'"{term}"' for term in terms)
        rows = self._rows(
            "SELECT c.chunk_id, -bm25(chunks_fts, 0.0, 1.0) AS score FROM chunks_fts JOIN chunks AS c ON c.chunk_no = chunks_fts.rowid"
            " WHERE chunks_fts MATCH ? AND c.chat_id = ? ORDER BY score DESC, c.chunk_no DESC LIMIT ?",
            (f'chat:"c{chat_no}" AND body:({words})', chat_id, k),
        )
        return [Match(chunk_id, score) for chunk_id, score in rows]

    def chunks(self, chunk_ids: Sequence[str], chat_id: str) -> dict[str, Chunk]:
        """Chunks by id, of this chat only: an id of another chat is not found."""
        marks = ",".join("?" * len(chunk_ids))
        sql = f"SELECT {_COLUMNS} FROM chunks WHERE chunk_id IN ({marks}) AND chat_id = ?"  # noqa: S608 - marks only
        return {chunk.chunk_id: chunk for chunk in map(_chunk, self._rows(sql, (*chunk_ids, chat_id)))}

    def question_of(self, chunk: Chunk) -> str | None:
        """Text of the question that an answer belongs to, or None."""
        if chunk.role != "asst":
            return None
        sql = "SELECT text FROM chunks WHERE chat_id = ? AND exchange = ? AND role = 'user' ORDER BY passage LIMIT 1"
        rows = self._rows(sql, (chunk.chat_id, chunk.exchange))
        return str(rows[0][0]) if rows else None

    def chunks_per_chat(self) -> dict[str, int]:
        return dict(self._rows("SELECT chat_id, count(*) FROM chunks GROUP BY chat_id", ()))

    def first_texts(self, chats: int) -> list[tuple[str, str]]:
        """(chat id, text of its first chunk that holds a word) of so many chats, spread over all."""
        rows = self._rows(
            "SELECT chat_id, min(chunk_no), text FROM chunks WHERE text GLOB '*[A-Za-z]*' GROUP BY chat_id", ()
        )
        step = max(1, len(rows) // chats)
        return [(str(chat_id), str(text)) for chat_id, _, text in rows[::step][:chats]]

    def all_chunks(self) -> list[Chunk]:
        """Every chunk in the order of building: for verification and rebuild comparisons, not for recall."""
        sql = f"SELECT {_COLUMNS} FROM chunks ORDER BY chunk_no"  # noqa: S608 - constants
        return [_chunk(row) for row in self._rows(sql, ())]

    def _chat_no(self, chat_id: str) -> int | None:
        rows = self._rows("SELECT chat_no FROM chats WHERE chat_id = ?", (chat_id,))
        return int(rows[0][0]) if rows else None

    def _rows(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql, tuple(parameters)).fetchall()


def _chunk(row: Sequence[Any]) -> Chunk:
    chunk_id, chat_id, exchange, turn_ids, *rest = row
    return Chunk(chunk_id, chat_id, exchange, tuple(orjson.loads(turn_ids)), *rest)
