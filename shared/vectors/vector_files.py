"""`vectors/`: the vectors of a release as SQLite files, its parts (shared/release/parts.py). What stands in one, and how a chat is read from all.

    chats    chat_no, chat_id, vectors (how many), repeated (chunk id -> the chunk, of whatever part, whose vector equals its own)
    blocks   chat_no, block_no, chat_id, ids, vectors: up to BLOCK_ROWS rows, vectors as float16

Equal vectors are kept once here too: else the same words said often would fill every answer. Vectors are float16 on disk, half of what is
sent to the day host, for a rounding of some 0.0001 in a similarity, and float32 in memory: 100,000 of 384 dimensions are compared in
10 ms, as float16 in 60 ms.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
from cachetools import LRUCache

from shared.errors import ReleaseRefused, StorageError
from shared.release.integrity import open_closed
from shared.release.parts import part_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.embedding.models import Vectors
    from shared.vectors.base import Corpus


# ── The vectors of one chat in memory, compared one by one, so that a search is exact; and the chats that were asked for last.


#: Memory for vectors of chats that were searched lately; the newest one stays even if it alone is larger.
CACHE_BYTES = 176 << 20
#: What a row takes beside its vector: the chunk id, twice pointed to (measured).
ROW_BYTES = 180
#: From this part of a chat on, all its rows are compared: cheaper than a copy of the ones asked for.
MANY = 8


@dataclass(frozen=True)
class ChatVectors:
    """One chat's rows: chunk ids, vectors of shape (n, dimensions), and the row of each chunk, repeated ones included."""

    ids: list[str]
    vectors: Vectors
    rows: dict[str, int]
    asked: list[tuple[Sequence[str], NDArray[np.intp]]] = field(default_factory=list)

    def compare(self, vector: Vectors, chunk_ids: Sequence[str]) -> Vectors:
        """Cosine similarity of each chunk, shape (n,); NaN where it has no row."""
        rows = self._rows_of(chunk_ids)
        known = rows >= 0
        scores = np.full(len(rows), np.nan, dtype=np.float32)
        if len(rows) * MANY > len(self.ids):  # no copy of the rows
            scores[known] = (self.vectors @ vector)[rows[known]]
        else:
            scores[known] = self.vectors[rows[known]] @ vector
        return scores

    def _rows_of(self, chunk_ids: Sequence[str]) -> NDArray[np.intp]:
        """The row of each chunk, -1 for none. A lookup asks for all chunks of a chat, each time for the same tuple: that one is kept."""
        if self.asked and self.asked[0][0] is chunk_ids:
            return self.asked[0][1]
        rows = np.fromiter((self.rows.get(one, -1) for one in chunk_ids), np.intp, len(chunk_ids))
        if isinstance(chunk_ids, tuple):  # nobody can change it
            self.asked[:] = [(chunk_ids, rows)]
        return rows


class KeptChats:
    """The chats asked for last, up to a number of bytes. `read` gets one that is not here, and asks for `room` first. Threads may share it."""

    def __init__(
        self, read: Callable[[str], ChatVectors | None], dimensions: int, limit_bytes: int = CACHE_BYTES
    ) -> None:
        self._read, self._row_bytes = read, dimensions * 4 + ROW_BYTES
        self._kept: LRUCache[str, ChatVectors] = LRUCache(
            limit_bytes, getsizeof=lambda chat: min(len(chat.ids) * self._row_bytes, limit_bytes)
        )
        #: Held while a chat is read: two that ask for the same one read it once.
        self.reading = threading.Lock()
        self._keeping = threading.Lock()

    def get(self, chat_id: str) -> ChatVectors | None:
        """None for an unknown chat."""
        if known := self._known(chat_id):
            return known
        with self.reading:
            if known := self._known(chat_id):
                return known
            read = self._read(chat_id)
            if read is not None:
                with self._keeping:
                    self._kept[chat_id] = read
            return read

    def room(self, count: int) -> None:
        """Forget the chats that were asked longest ago, before memory is taken for so many rows."""
        with self._keeping:
            while self._kept and self._kept.currsize + count * self._row_bytes > self._kept.maxsize:
                self._kept.popitem()

    def clear(self) -> None:
        with self._keeping:
            self._kept.clear()

    def _known(self, chat_id: str) -> ChatVectors | None:
        with self._keeping:
            return self._kept.get(chat_id)


#: Raise it when the files are laid out in another way.
LAYOUT = 2
BLOCK_ROWS = 1024
STORED = np.dtype("<f2")

SCHEMA = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA user_version = {LAYOUT};
CREATE TABLE chats (chat_no INTEGER PRIMARY KEY, chat_id TEXT NOT NULL UNIQUE, vectors INTEGER NOT NULL, repeated BLOB NOT NULL);
CREATE TABLE blocks (
    chat_no INTEGER NOT NULL, block_no INTEGER NOT NULL, chat_id TEXT NOT NULL, ids BLOB NOT NULL, vectors BLOB NOT NULL,
    PRIMARY KEY (chat_no, block_no)
);
"""


def write_part(path: Path, corpus: Corpus) -> None:
    """Write the new file `path` and close it. StorageError if SQLite cannot write.

    Not safe against a crash: the caller discards the directory then, and makes it durable when it is whole.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(SCHEMA)
            connection.execute("BEGIN")
            for number, chat_id in enumerate(dict.fromkeys([*corpus.chats, *corpus.repeats]), start=1):
                ids, vectors = corpus.chats.get(chat_id, ((), None))
                repeated = orjson.dumps(dict(corpus.repeats.get(chat_id, {})))
                connection.execute("INSERT INTO chats VALUES (?,?,?,?)", (number, chat_id, len(ids), repeated))
                if vectors is not None:
                    _write_blocks(connection, number, chat_id, ids, vectors)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StorageError(
            f"SQLite could not write the index {path}: {error}. Check the disk, then run the night again."
        ) from error


def _write_blocks(
    connection: sqlite3.Connection, number: int, chat_id: str, ids: Sequence[str], vectors: Vectors
) -> None:
    for block, start in enumerate(range(0, len(ids), BLOCK_ROWS)):
        part = slice(start, start + BLOCK_ROWS)
        content = (orjson.dumps(list(ids[part])), vectors[part].astype(STORED).tobytes())
        connection.execute("INSERT INTO blocks VALUES (?,?,?,?,?)", (number, block, chat_id, *content))


def chats_in(path: Path) -> dict[str, tuple[int, dict[str, str]]]:
    """Of each chat in one part how many vectors it has there, and the chunks that repeat a vector, each with the one whose vector it is.
    sqlite3.Error or ValueError if the file is damaged."""
    with closing(open_closed(path)) as connection:
        rows = connection.execute("SELECT chat_id, vectors, repeated FROM chats")
        return {chat_id: (vectors, orjson.loads(repeated)) for chat_id, vectors, repeated in rows}


@dataclass(frozen=True)
class _InPart:
    """A chat in one part."""

    path: Path
    connection: sqlite3.Connection
    number: int
    count: int
    repeated: Mapping[str, str]


class VectorFile:
    """A reader of `vectors/`, or of one part; threads may share it. sqlite3.Error or ReleaseRefused if a file is damaged."""

    def __init__(self, place: Path, dimensions: int, cache_bytes: int = CACHE_BYTES) -> None:
        self._place, self._dimensions = place, dimensions
        self.kept = KeptChats(self._read, dimensions, cache_bytes)
        self._parts: dict[Path, sqlite3.Connection] = {}
        with ExitStack() as opened:
            opened.callback(self.close)
            for path in part_files(place):
                self._parts[path] = open_closed(path)
                (layout,) = self._parts[path].execute("PRAGMA user_version").fetchone()
                if layout != LAYOUT:
                    raise _refused(path, f"has layout {layout}, this program knows {LAYOUT}")
            opened.pop_all()

    def chat(self, chat_id: str) -> ChatVectors | None:
        """A chat's vectors, from memory if it was asked lately; None for an unknown chat, and once closed."""
        return self.kept.get(chat_id)

    def close(self) -> None:
        with self.kept.reading:
            self.kept.clear()
            while self._parts:
                _, connection = self._parts.popitem()
                connection.close()

    def _read(self, chat_id: str) -> ChatVectors | None:
        found = [part for path, connection in self._parts.items() if (part := _find(path, connection, chat_id))]
        if not found:
            return None
        count = sum(part.count for part in found)
        self.kept.room(count)
        vectors, ids = np.empty((count, self._dimensions), np.float32), list[str]()
        for part in found:
            ids += _read_rows(part, chat_id, vectors[len(ids) : len(ids) + part.count])
        rows = {one: row for row, one in enumerate(ids)}
        try:
            rows |= {again: rows[first] for part in found for again, first in part.repeated.items()}
        except KeyError as error:
            raise _refused(self._place, "repeats a vector that it does not have") from error
        return ChatVectors(ids, vectors, rows)


def read_part(path: Path, dimensions: int) -> Iterator[tuple[str, list[str], Vectors]]:
    """(chat id, chunk ids, their vectors of shape (n, dimensions), float32) of each chat in one part; errors as of `VectorFile`."""
    with closing(open_closed(path)) as connection:
        for (chat_id,) in connection.execute("SELECT chat_id FROM chats ORDER BY chat_no").fetchall():
            if part := _find(path, connection, chat_id):
                vectors = np.empty((part.count, dimensions), np.float32)
                yield chat_id, _read_rows(part, chat_id, vectors), vectors


def read_chat(path: Path, chat_id: str, dimensions: int) -> tuple[list[str], Vectors, dict[str, str]]:
    """(chunk ids, their vectors of shape (n, dimensions), float32, repeated chunks) of one chat in one part, empty for an unknown chat; errors
    as of `VectorFile`."""
    with closing(open_closed(path)) as connection:
        part = _find(path, connection, chat_id)
        vectors = np.empty((part.count if part else 0, dimensions), np.float32)
        return (_read_rows(part, chat_id, vectors), vectors, dict(part.repeated)) if part else ([], vectors, {})


def _find(path: Path, connection: sqlite3.Connection, chat_id: str) -> _InPart | None:
    row = connection.execute("SELECT chat_no, vectors, repeated FROM chats WHERE chat_id = ?", (chat_id,)).fetchone()
    return _InPart(path, connection, row[0], row[1], orjson.loads(row[2])) if row else None


def _read_rows(part: _InPart, chat_id: str, into: Vectors) -> list[str]:
    """The ids of a chat's rows in one part; their vectors are put into an array of shape (count, dimensions)."""
    ids, dimensions = list[str](), into.shape[1]
    sql = "SELECT chat_id, vectors, ids FROM blocks WHERE chat_no = ? ORDER BY block_no"
    for owner, content, named in part.connection.execute(sql, (part.number,)):
        some = orjson.loads(named)
        if (
            owner != chat_id
            or len(content) != len(some) * dimensions * STORED.itemsize
            or len(ids) + len(some) > part.count
        ):
            raise _refused(part.path, "has a block that does not fit its chat")
        into[len(ids) : len(ids) + len(some)] = np.frombuffer(content, STORED).reshape(-1, dimensions)
        ids += some
    if len(ids) != part.count:
        raise _refused(part.path, f"holds {len(ids)} of {part.count} vectors of a chat")
    return ids


def _refused(path: Path, why: str) -> ReleaseRefused:
    return ReleaseRefused(f"{path} {why}. Run the night again.")
