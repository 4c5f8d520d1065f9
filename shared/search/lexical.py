"""`lexical/`: the chunks of a release, and what they are ranked by (shared/search/chat_items.py), scoped by chat, in parts (shared/release/parts.py).

A part is built closed (`journal_mode=DELETE`, nothing beside it), never written again, and read with `mode=ro&immutable=1`, which works on a
read-only mount. There is no full-text index over all chats: each chat has rows of its own, and every chunk's chat id is compared again on
the way out. Each chunk is in one part.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import sqlite3
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from cachetools import LRUCache

from shared.errors import LedgerMismatch
from shared.ranking.question import query_words
from shared.ranking.tokeniser import Tokeniser, question_terms
from shared.release.integrity import check_database, damage_named, open_closed
from shared.release.parts import begin, new_part, part_files
from shared.text.format import in_batches
from shared.turns.chunk import COLUMNS, Chunk, chunk_of, turn_order, values_of
from shared.turns.speakers import Speaker

if TYPE_CHECKING:
    from shared.ranking.scoring import Posting
    from shared.release.parts import Earlier
    from shared.search.chat_items import ChatItems

#: Raise it when a part is laid out in another way, or would hold other rows of the same chunks.
LAYOUT = 5
SCHEMA = """
CREATE TABLE chats (chat_no INTEGER PRIMARY KEY, chat_id TEXT NOT NULL UNIQUE);
CREATE TABLE chunks (
  chunk_no INTEGER PRIMARY KEY, chunk_id TEXT NOT NULL UNIQUE, chat_id TEXT NOT NULL, exchange TEXT NOT NULL,
  turn_ids TEXT NOT NULL, role TEXT NOT NULL, speaker TEXT NOT NULL, text TEXT NOT NULL,
  started_at REAL NOT NULL, ended_at REAL NOT NULL, passage INTEGER NOT NULL, passages INTEGER NOT NULL, user_id TEXT,
  origin TEXT
);
CREATE INDEX chunks_by_exchange ON chunks (chat_id, exchange, role, passage);
"""


#: Items of chats in memory, of 150 bytes or more each: 300 chats of 600. A chat that has more is kept alone, and one counts as so many at least.
ITEMS_KEPT, FEWEST = 200_000, 60
#: Ids in one statement; SQLite takes 32,766.
IDS_AT_ONCE = 1000


def version() -> str:
    """What a part follows from beside its chunks: only parts of the same are taken over."""
    stemmer = importlib.metadata.version("snowballstemmer")
    return f"layout {LAYOUT}, SQLite {sqlite3.sqlite_version}, snowballstemmer {stemmer}"


def build(place: Path, run: int, rows: Iterable[tuple[Chunk, str]], earlier: Earlier | None = None) -> None:
    """Write `lexical/` from (chunk, indexed text) pairs, of which those of a chat follow each other, and close it; `check` proves it.

    The parts of `earlier` are taken over; the rows, which they do not hold, become a part of its own.
    """
    begin(place, earlier)
    path = new_part(place, run)
    with closing(sqlite3.connect(path)) as connection:
        written = _write_part(connection, rows)
    if not written and len(part_files(place)) > 1:
        path.unlink()


def _write_part(connection: sqlite3.Connection, rows: Iterable[tuple[Chunk, str]]) -> int:
    """How many chunks the new file holds. One chat is in memory at a time."""
    from shared.search import chat_items  # late: numpy is slow to load

    number, chats = 0, set[str]()
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.executescript(SCHEMA + chat_items.SCHEMA)
    tokeniser = Tokeniser()
    for chat_id, group in itertools.groupby(rows, key=lambda row: row[0].chat_id):
        if chat_id in chats:
            raise ValueError(f"the chunks of chat {chat_id} do not follow each other")
        chats.add(chat_id)
        connection.execute("INSERT INTO chats (chat_no, chat_id) VALUES (?,?)", (len(chats), chat_id))
        entries = list[tuple[Any, ...]]()  # of a chat, which may be very large, what its items need
        for number, (c, text) in enumerate(group, start=number + 1):  # noqa: B020 - it goes on counting
            connection.execute(
                f"INSERT INTO chunks (chunk_no, {COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",  # noqa: S608 - constants
                (number, *values_of(c)),
            )
            entries.append((c.chunk_id, c.role, c.speaker, c.user_id, c.text, c.started_at, text))
        entries.sort(key=lambda entry: entry[5])
        chat_items.write_chat(connection, len(chats), entries, tokeniser)
    connection.commit()
    return number


def count(path: Path, chats: Iterable[str]) -> Counter[str]:
    """The chunks that one part has of these chats."""
    sql = "SELECT count(*) FROM chunks WHERE chat_id = ?"
    with damage_named(path), closing(open_closed(path)) as connection:
        return Counter({chat_id: connection.execute(sql, (chat_id,)).fetchone()[0] for chat_id in chats})


def check(place: Path, chunks_per_chat: Mapping[str, int], earlier: Earlier | None = None) -> dict[str, int]:
    """Prove the closed files: rows by keyword of each chat, as the index answers; the files stay as they are.

    A part that was taken over was proven by the night that wrote it, and its hash is still the same: it is not looked at, and `chunks_per_chat`
    is of the other parts. LedgerMismatch if a chat's chunks are not all there, or others are; StorageError if a file is damaged.
    """
    from shared.search.chat_items import found_in

    stored, found = Counter[str](), Counter[str]()
    others = 0
    for path in part_files(place):
        if earlier is not None and path.name in earlier.parts:
            continue
        check_database(path)
        with damage_named(path), closing(open_closed(path)) as connection:
            stored.update(dict(connection.execute("SELECT chat_id, count(*) FROM chunks GROUP BY chat_id").fetchall()))
            told, more = found_in(connection)
        found.update(told)
        others += more
    if not stored == found == Counter(chunks_per_chat) or others:
        raise LedgerMismatch(
            f"{place} holds {stored.total()} chunks of {len(stored)} chats and finds {found.total()} by keyword; "
            f"{sum(chunks_per_chat.values())} of {len(chunks_per_chat)} were made. Nothing was published; run the night again."
        )
    return dict(found)


def room_of(items: int) -> int:
    """What a chat of so many items takes of ITEMS_KEPT."""
    return min(max(items, FEWEST), ITEMS_KEPT)


class LexicalIndex:
    """Reader of one release's `lexical/`, or of one part. May be used from several threads."""

    def __init__(self, place: Path) -> None:
        paths = part_files(place)
        if not paths:
            raise sqlite3.OperationalError(f"{place} holds no part")
        self._connections = [open_closed(path) for path in paths]
        self._lock = threading.Lock()
        self._items: LRUCache[str, ChatItems] = LRUCache(ITEMS_KEPT, getsizeof=lambda one: room_of(len(one)))

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                connection.close()

    def items(self, chat_id: str) -> ChatItems | None:
        """The chat's items, kept in memory from the first time on; None for an unknown chat."""
        with self._lock:
            kept = self._items.get(chat_id)
            if kept is None and (kept := self._read_items(chat_id)) is not None:
                self._items[chat_id] = kept
            return kept

    def postings(self, items: ChatItems, terms: Sequence[str]) -> dict[str, Posting]:
        """Where these terms stand in a chat; missing ones are left out."""
        from shared.search.chat_items import joined_postings, read_postings

        with self._lock:
            return joined_postings([read_postings(self._connections[one.part], one, terms) for one in items.stretches])

    def finding(self, query: str, chat_id: str) -> set[str]:
        """Ids of the chat's chunks that hold one of the words."""
        if (items := self.items(chat_id)) is None:
            return set()
        found = self.postings(items, question_terms(query_words(query))).values()
        return {items.chunk_ids[at] for ordinals, _ in found for at in ordinals.tolist()}

    def turn_ids(self, chat_id: str, since: float | None = None, until: float | None = None) -> Iterator[str]:
        """The chat's turns, the newest first, said from `since` on and before `until` (POSIX seconds)."""
        import numpy as np

        items = self.items(chat_id)
        if items is None:
            return
        first = 0 if since is None else int(np.searchsorted(items.starts, since))
        end = len(items.chunk_ids) if until is None else int(np.searchsorted(items.starts, until))
        for at in range(end - 1, first - 1, -1):
            turn_id, _, passage = items.chunk_ids[at].rpartition("#")
            if passage == "1":
                yield turn_id

    def _read_items(self, chat_id: str) -> ChatItems | None:
        from shared.search.chat_items import chat_items, read_rows

        rows = [read_rows(connection, chat_id, part) for part, connection in enumerate(self._connections)]
        parts = [one for one in rows if one]
        return chat_items(chat_id, parts) if parts else None

    def chunks(self, chunk_ids: Sequence[str], chat_id: str) -> dict[str, Chunk]:
        """Chunks by id, of this chat only: an id of another chat is not found."""
        marks = ",".join("?" * len(chunk_ids))
        # `+`: else SQLite walks through the whole chat for them (50 of 65 ms in a chat of 100,000).
        sql = f"SELECT {COLUMNS} FROM chunks WHERE chunk_id IN ({marks}) AND +chat_id = ?"  # noqa: S608 - marks only
        return {chunk.chunk_id: chunk for chunk in map(chunk_of, self._rows(sql, (*chunk_ids, chat_id)))}

    def holding(self, chat_id: str, turn_ids: Iterable[str]) -> set[str]:
        """Which of these turns the chat has chunks of."""
        found = set[str]()
        for part in in_batches((f"{turn_id}#1" for turn_id in turn_ids), IDS_AT_ONCE):
            marks = ",".join("?" * len(part))
            sql = f"SELECT chunk_id FROM chunks WHERE chunk_id IN ({marks}) AND +chat_id = ?"  # noqa: S608 - marks only
            found |= {chunk_id.removesuffix("#1") for (chunk_id,) in self._rows(sql, (*part, chat_id))}
        return found

    def questions_of(self, chunks: Sequence[Chunk], chat_id: str) -> dict[str, str]:
        """Texts of the questions that these answers belong to, by exchange; of this chat only, and none where there was no question."""
        asked = {chunk.exchange for chunk in chunks if chunk.role == "asst" and chunk.chat_id == chat_id}
        marks = ",".join("?" * len(asked))
        sql = (
            f"SELECT passage, exchange, text FROM chunks WHERE chat_id = ? AND exchange IN ({marks}) AND role = 'user'"  # noqa: S608 - marks only
        )
        rows = sorted(self._rows(sql, (chat_id, *asked)), reverse=True)
        return {exchange: text for _, exchange, text in rows}  # that of the first passage comes last

    def chunks_per_chat(self) -> dict[str, int]:
        counted = Counter[str]()
        for chat_id, count in self._rows("SELECT chat_id, count(*) FROM chunks GROUP BY chat_id", ()):
            counted[chat_id] += count
        return dict(counted)

    def first_chunk(self, chat_id: str) -> Chunk | None:
        """The first chunk of a chat that holds a word, of the oldest part that has one."""
        sql = f"SELECT {COLUMNS} FROM chunks WHERE chat_id = ? AND text GLOB '*[A-Za-z]*' ORDER BY chunk_no LIMIT 1"  # noqa: S608 - constants
        rows = self._rows(sql, (chat_id,))
        return chunk_of(rows[0]) if rows else None

    def newest_chunk(self, chat_id: str) -> Chunk | None:
        """What was said last in a chat, without its items: those take numpy, and of a large chat long."""
        sql = "SELECT chunk_ids FROM items WHERE chat_no = (SELECT chat_no FROM chats WHERE chat_id = ?)"
        newest = [orjson.loads(ids)[-1] for (ids,) in self._rows(sql, (chat_id,))]
        return max(self.chunks(newest, chat_id).values(), key=lambda one: one.started_at, default=None)

    def speakers(self, chat_id: str) -> set[Speaker]:
        """Everybody who spoke in a chat, read in the same way."""
        sql = "SELECT speakers, users FROM items WHERE chat_no = (SELECT chat_no FROM chats WHERE chat_id = ?)"
        rows = (map(orjson.loads, row) for row in self._rows(sql, (chat_id,)))
        return {(role, name, user) for row in rows for (role, name), user in zip(*row, strict=True)}

    def times(self, chat_id: str) -> dict[str, float]:
        """Turn id → when it was said (POSIX seconds), read in the same way. sqlite3.DatabaseError if a row is not whole."""
        sql = "SELECT chunk_ids, starts FROM items WHERE chat_no = (SELECT chat_no FROM chats WHERE chat_id = ?)"
        found: dict[str, float] = {}
        for encoded, starts in self._rows(sql, (chat_id,)):
            if len(starts) != 8 * len(ids := orjson.loads(encoded)):
                raise sqlite3.DatabaseError("the items of a chat are not whole")
            for chunk_id, (at,) in zip(ids, struct.iter_unpack("<d", starts), strict=True):
                found[chunk_id.rpartition("#")[0]] = at  # a long turn has several chunks, of one time
        return found

    def chunks_of(self, chat_id: str) -> list[Chunk]:
        """Every chunk of a chat in order of time: for verification, not for recall."""
        sql = f"SELECT {COLUMNS} FROM chunks WHERE chat_id = ?"  # noqa: S608 - constants
        chunks = map(chunk_of, self._rows(sql, (chat_id,)))
        return sorted(chunks, key=lambda chunk: (chunk.started_at, turn_order(chunk.chunk_id)))

    def _rows(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        """Of all parts, one after the other."""
        with self._lock:
            return [row for one in self._connections for row in one.execute(sql, tuple(parameters))]
