"""`lexical.sqlite`: the chunks of a release, and what they are ranked by (shared/chat_index.py), scoped by chat.

The file is built closed (`journal_mode=DELETE`, nothing beside it) and read with `mode=ro&immutable=1`, which works on a read-only
mount. There is no full-text index over all chats: each chat has rows of its own, and every chunk's chat id is compared again on the way out.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from shared.errors import LedgerMismatch
from shared.integrity import check_database, damage_named, open_closed
from shared.ranking import Match, query_terms, query_words

if TYPE_CHECKING:
    from shared.chat_index import ChatCache, ChatItems, Tokeniser
    from shared.scoring import Posting

SCHEMA = """
CREATE TABLE chats (chat_no INTEGER PRIMARY KEY, chat_id TEXT NOT NULL UNIQUE);
CREATE TABLE chunks (
  chunk_no INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL UNIQUE, chat_id TEXT NOT NULL, exchange TEXT NOT NULL,
  turn_ids TEXT NOT NULL, role TEXT NOT NULL, speaker TEXT NOT NULL, text TEXT NOT NULL,
  started_at REAL NOT NULL, ended_at REAL NOT NULL, passage INTEGER NOT NULL, passages INTEGER NOT NULL
);
CREATE INDEX chunks_by_exchange ON chunks (chat_id, exchange, role, passage);
"""

#: Ids in one statement; SQLite takes 32,766.
IDS_AT_ONCE = 1000
#: Chunks that are kept once they were read: a chat's best ones come again from question to question. One takes a kilobyte beside its text.
CHUNKS_KEPT = 16_384
_COLUMNS = "chunk_id, chat_id, exchange, turn_ids, role, speaker, text, started_at, ended_at, passage, passages"


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
    """Write `lexical.sqlite` from (chunk, indexed text) pairs, and close it; `check` proves it. The rows may come in any order."""
    from shared import chat_index

    with closing(sqlite3.connect(path)) as connection, closing(sqlite3.connect("")) as indexed:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.executescript(SCHEMA + chat_index.SCHEMA)
        indexed.execute("CREATE TABLE texts (chunk_no INTEGER PRIMARY KEY, body TEXT)")
        chats: dict[str, int] = {}
        for number, (chunk, text) in enumerate(rows, start=1):
            chats.setdefault(chunk.chat_id, len(chats) + 1)
            connection.execute(
                f"INSERT INTO chunks (chunk_no, {_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608 - constants
                (number, *_values(chunk)),
            )
            indexed.execute("INSERT INTO texts VALUES (?,?)", (number, text))
        connection.executemany("INSERT INTO chats (chat_no, chat_id) VALUES (?,?)", [(n, c) for c, n in chats.items()])
        _write_items(connection, indexed, chats)
        connection.commit()


def _values(chunk: Chunk) -> tuple[Any, ...]:
    """A chunk's columns."""
    values = vars(chunk) | {"turn_ids": orjson.dumps(chunk.turn_ids).decode()}
    return tuple(values[name] for name in _COLUMNS.split(", "))


def _write_items(connection: sqlite3.Connection, indexed: sqlite3.Connection, chats: Mapping[str, int]) -> None:
    """What each chat is ranked by; `indexed` holds the text that is searched, by chunk number."""
    from shared.chat_index import Tokeniser, write_chat

    sql = "SELECT chunk_no, chunk_id, role, speaker, text, started_at FROM chunks WHERE chat_id = ? ORDER BY started_at, chunk_no"
    with closing(Tokeniser()) as tokeniser:
        for chat_id, chat_no in chats.items():
            entries = [
                (*entry, *indexed.execute("SELECT body FROM texts WHERE chunk_no = ?", (number,)).fetchone())
                for number, *entry in connection.execute(sql, (chat_id,))
            ]
            write_chat(connection, chat_no, entries, tokeniser)


def check(path: Path, chunks_per_chat: Mapping[str, int]) -> dict[str, int]:
    """Prove the closed file: rows by keyword of each chat, as the index answers; the file stays as it is.

    LedgerMismatch if a chat's chunks are not all there, or others are; StorageError if the file is damaged.
    """
    check_database(path)
    with damage_named(path), closing(open_closed(path)) as connection:
        stored = dict(connection.execute("SELECT chat_id, count(*) FROM chunks GROUP BY chat_id").fetchall())
        found = {
            chat_id: _own_items(connection, chat_id) for (chat_id,) in connection.execute("SELECT chat_id FROM chats")
        }
        (chats,) = connection.execute("SELECT count(*) FROM items").fetchone()
        (others,) = connection.execute(
            "SELECT count(*) FROM postings WHERE chat_no NOT IN (SELECT chat_no FROM chats)"
        ).fetchone()
    if not stored == found == dict(chunks_per_chat) or chats != len(found) or others:
        raise LedgerMismatch(
            f"lexical.sqlite holds {sum(stored.values())} chunks of {len(stored)} chats and finds {sum(found.values())} by keyword; "
            f"{sum(chunks_per_chat.values())} of {len(chunks_per_chat)} were made. Nothing was published; run the night again."
        )
    return found


def _own_items(connection: sqlite3.Connection, chat_id: str) -> int:
    """How many items the chat has; -1 if they are not its own chunks, or its postings do not add up to the tokens of each of them."""
    import numpy as np

    from shared.chat_index import read_chat

    items = read_chat(connection, chat_id)
    own = [row[0] for row in connection.execute("SELECT chunk_id FROM chunks WHERE chat_id = ?", (chat_id,))]
    if items is None or sorted(own) != sorted(items.chunk_ids):
        return -1
    rows = connection.execute("SELECT ordinals, counts FROM postings WHERE chat_no = ?", (items.chat_no,)).fetchall()
    ordinals = np.frombuffer(b"".join(row[0] for row in rows), "<i4")
    counts = np.frombuffer(b"".join(row[1] for row in rows), "<u2")
    if len(ordinals) != len(counts) or (len(ordinals) and not 0 <= ordinals.min() <= ordinals.max() < len(items)):
        return -1
    sums = np.bincount(ordinals, counts, minlength=len(items))
    return len(items) if np.array_equal(sums, items.features.tokens) else -1


@dataclass(frozen=True)
class Ranked:
    """The tokeniser of questions, and the chats in memory."""

    tokeniser: Tokeniser
    cache: ChatCache


class LexicalIndex:
    """Reader of one release's `lexical.sqlite`. May be used from several threads."""

    def __init__(self, path: Path) -> None:
        self._connection = open_closed(path)
        self._lock = threading.Lock()
        self._ranked: Ranked | None = None
        self._kept: OrderedDict[str, Chunk] = OrderedDict()
        self._keeping = threading.Lock()

    def close(self) -> None:
        with self._keeping:
            self._kept.clear()
        with self._lock:
            self._connection.close()
            if self._ranked:
                self._ranked.tokeniser.close()

    def items(self, chat_id: str) -> ChatItems | None:
        """The chat's items, kept in memory from the first time on; None for an unknown chat."""
        return self._ranking().cache.get(chat_id)

    def terms(self, words: Sequence[str]) -> list[str]:
        """What is looked for, given the words of a question."""
        return self._ranking().tokeniser.terms(" ".join(query_terms(words)))

    def postings(self, items: ChatItems, terms: Sequence[str]) -> dict[str, Posting]:
        """Where these terms stand in a chat, those that do."""
        from shared.chat_index import read_postings

        with self._lock:
            return read_postings(self._connection, items, terms)

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:
        """The chat's chunks that hold one of the words, best first; score is BM25 with what stands near (higher is better)."""
        import numpy as np

        from shared.scoring import bm25

        items = self.items(chat_id)
        if items is None or not (postings := self.postings(items, self.terms(query_words(query)))):
            return []
        scores = bm25(postings.values(), items.features)
        holding = np.unique(np.concatenate([ordinals for ordinals, _ in postings.values()]))
        ranked = holding[np.lexsort((-holding, -scores[holding]))][:k]
        return [Match(items.chunk_ids[at], float(scores[at])) for at in ranked]

    def _ranking(self) -> Ranked:
        """What ranking needs beside the file; made when somebody asks, since numpy is slow to load."""
        with self._lock:
            if self._ranked is None:
                from shared.chat_index import ChatCache, Tokeniser

                self._ranked = Ranked(Tokeniser(), ChatCache(self._read_items))
            return self._ranked

    def _read_items(self, chat_id: str) -> ChatItems | None:
        from shared.chat_index import read_chat

        with self._lock:
            return read_chat(self._connection, chat_id)

    def chunks(self, chunk_ids: Sequence[str], chat_id: str) -> dict[str, Chunk]:
        """Chunks by id, of this chat only: an id of another chat is not found."""
        with self._keeping:
            found = {name: chunk for name in chunk_ids if (chunk := self._kept.get(name)) and chunk.chat_id == chat_id}
            for name in found:
                self._kept.move_to_end(name)
        if missing := [name for name in chunk_ids if name not in found]:
            found |= self._read_chunks(missing, chat_id)
        return found

    def _read_chunks(self, chunk_ids: Sequence[str], chat_id: str) -> dict[str, Chunk]:
        marks = ",".join("?" * len(chunk_ids))
        # `+`: else SQLite walks through the whole chat for them (50 of 65 ms in a chat of 100,000).
        sql = f"SELECT {_COLUMNS} FROM chunks WHERE chunk_id IN ({marks}) AND +chat_id = ?"  # noqa: S608 - marks only
        read = {chunk.chunk_id: chunk for chunk in map(_chunk, self._rows(sql, (*chunk_ids, chat_id)))}
        with self._keeping:
            self._kept |= read
            while len(self._kept) > CHUNKS_KEPT:
                self._kept.popitem(last=False)
        return read

    def holding(self, chat_id: str, turn_ids: Iterable[str]) -> set[str]:
        """Which of these turns the chat has chunks of."""
        firsts = [f"{turn_id}#1" for turn_id in turn_ids]
        found = set[str]()
        for start in range(0, len(firsts), IDS_AT_ONCE):
            part = firsts[start : start + IDS_AT_ONCE]
            marks = ",".join("?" * len(part))
            sql = f"SELECT chunk_id FROM chunks WHERE chunk_id IN ({marks}) AND +chat_id = ?"  # noqa: S608 - marks only
            found |= {chunk_id.removesuffix("#1") for (chunk_id,) in self._rows(sql, (*part, chat_id))}
        return found

    def questions_of(self, chunks: Sequence[Chunk], chat_id: str) -> dict[str, str]:
        """Texts of the questions that these answers belong to, by exchange; of this chat only, and none where there was no question."""
        asked = {chunk.exchange for chunk in chunks if chunk.role == "asst" and chunk.chat_id == chat_id}
        marks = ",".join("?" * len(asked))
        sql = f"SELECT exchange, text FROM chunks WHERE chat_id = ? AND exchange IN ({marks}) AND role = 'user' ORDER BY passage DESC"  # noqa: S608 - marks only
        return dict(self._rows(sql, (chat_id, *asked)))

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

    def _rows(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(sql, tuple(parameters)).fetchall()


def _chunk(row: Sequence[Any]) -> Chunk:
    chunk_id, chat_id, exchange, turn_ids, *rest = row
    return Chunk(chunk_id, chat_id, exchange, tuple(orjson.loads(turn_ids)), *rest)
