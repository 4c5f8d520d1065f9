"""SQLite: all vectors of a release in one file, `vectors.sqlite`; a chat's are compared one by one, so a search is exact.

    chats    chat_no, chat_id, vectors (how many), repeated (chunk id -> row, of chunks whose vector equals an earlier one's)
    blocks   chat_no, block_no, chat_id, ids, vectors: up to BLOCK_ROWS rows, vectors as float16

Equal vectors are kept once here too: else the same words said often would fill every answer. The file is never written again, so it is read
in place (`immutable`: no lock, no journal, also on a read-only mount), after its hash was verified. One connection holds it open: a
release that is removed meanwhile can still be read. Vectors are float16 on disk, half of what is sent to the day host, for a rounding
of some 0.0001 in a similarity, and float32 in memory: 100,000 of 384 dimensions are compared in 10 ms, as float16 in 60 ms.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson

from shared.backends.asking import AskingBackend
from shared.embedding import EmbeddingIdentity
from shared.errors import ReleaseRefused, StorageError
from shared.integrity import check_database, damage_named, open_closed
from shared.ranking import Match
from shared.release import VECTORS, verify
from shared.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.embedding import Vectors

    #: Chat id -> (chunk ids, their vectors of shape (n, dimensions)).
    Chats = Mapping[str, tuple[Sequence[str], Vectors]]
    #: Chat id -> chunk id -> the chunk whose vector equals its own.
    Repeats = Mapping[str, Mapping[str, str]]

#: Raise it when the file is laid out in another way.
LAYOUT = 1
BLOCK_ROWS = 1024
STORED = np.dtype("<f2")
#: Memory for vectors of chats that were searched lately; the newest one stays even if it alone is larger.
CACHE_BYTES = 176 << 20
#: What a row takes beside its vector: the chunk id, twice pointed to (measured).
ROW_BYTES = 180
#: From this part of a chat on, all its rows are compared: cheaper than a copy of those that are asked for.
MANY = 8
#: A cosine below which a stored vector is not itself.
SAME = 0.999
#: Every k-th vector must find itself after building, at most so many a chat: the bytes of all are compared besides.
SELF_CHECK_EVERY, SELF_CHECKS_PER_CHAT = 50, 100

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


def build(path: Path, chats: Chats, repeats: Repeats | None = None) -> None:
    """Write the new file `path` and close it; `check` proves it. StorageError if SQLite cannot write.

    The ids of a chat must be distinct, and so should its vectors (float32, unit length). Not safe against a crash: the caller discards the
    directory then, and makes it durable when it is whole.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(SCHEMA)
            connection.execute("BEGIN")
            for number, (chat_id, (ids, vectors)) in enumerate(chats.items(), start=1):
                _write_chat(connection, number, chat_id, ids, vectors, (repeats or {}).get(chat_id, {}))
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StorageError(
            f"SQLite could not write the index {path}: {error}. Look at the disk, then run the night again."
        ) from error


def _write_chat(
    connection: sqlite3.Connection,
    number: int,
    chat_id: str,
    ids: Sequence[str],
    vectors: Vectors,
    repeats: Mapping[str, str],
) -> None:
    rows = {chunk_id: row for row, chunk_id in enumerate(ids)} if repeats else {}
    repeated = orjson.dumps({chunk_id: rows[first] for chunk_id, first in repeats.items()})
    connection.execute("INSERT INTO chats VALUES (?,?,?,?)", (number, chat_id, len(ids), repeated))
    for block, start in enumerate(range(0, len(ids), BLOCK_ROWS)):
        part = slice(start, start + BLOCK_ROWS)
        content = (orjson.dumps(list(ids[part])), vectors[part].astype(STORED).tobytes())
        connection.execute("INSERT INTO blocks VALUES (?,?,?,?,?)", (number, block, chat_id, *content))


@dataclass(frozen=True)
class ChatVectors:
    """One chat's rows: chunk ids, vectors of shape (n, dimensions), and the row of each chunk, repeated ones included."""

    ids: list[str]
    vectors: Vectors
    rows: dict[str, int]
    asked: list[tuple[Sequence[str], NDArray[np.intp]]] = field(default_factory=list)

    def nearest(self, vector: Vectors, k: int) -> list[Match]:
        """The k most similar rows, best first; of equal ones the earlier."""
        if k < 1 or not self.ids:
            return []
        scores = self.vectors @ vector
        least = np.partition(scores, -k)[-k] if k < len(scores) else -np.inf
        candidates = np.flatnonzero(scores >= least)
        best = candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
        return [Match(self.ids[row], float(scores[row])) for row in best]

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


class VectorFile:
    """A reader of `vectors.sqlite`; threads may share it. sqlite3.Error or ReleaseRefused if the file is damaged."""

    def __init__(self, path: Path, dimensions: int, cache_bytes: int = CACHE_BYTES) -> None:
        self._path, self._dimensions, self._cache_bytes = path, dimensions, cache_bytes
        self._connection: sqlite3.Connection | None = open_closed(path)
        self._reading, self._keeping = threading.Lock(), threading.Lock()
        self._kept: OrderedDict[str, ChatVectors] = OrderedDict()
        (layout,) = self._connection.execute("PRAGMA user_version").fetchone()
        if layout != LAYOUT:
            self.close()
            raise self._refused(f"has layout {layout}, this program knows {LAYOUT}")

    def chats(self) -> dict[str, int]:
        """Chat id -> number of its vectors, as the file itself counts them."""
        with self._reading:
            return dict(self._connection.execute("SELECT chat_id, vectors FROM chats")) if self._connection else {}

    def chat(self, chat_id: str) -> ChatVectors | None:
        """A chat's vectors, from memory if it was asked lately; None for an unknown chat, and once closed."""
        with self._keeping:
            if chat_id in self._kept:
                self._kept.move_to_end(chat_id)
                return self._kept[chat_id]
        with self._reading:  # one at a time: two that ask for the same chat read it once
            with self._keeping:
                if chat_id in self._kept:
                    return self._kept[chat_id]
            return self._read(self._connection, chat_id) if self._connection else None

    def close(self) -> None:
        with self._reading, self._keeping:
            self._kept.clear()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _read(self, connection: sqlite3.Connection, chat_id: str) -> ChatVectors | None:
        known = connection.execute(
            "SELECT chat_no, vectors, repeated FROM chats WHERE chat_id = ?", (chat_id,)
        ).fetchone()
        if known is None:
            return None
        number, count, repeated = known
        self._make_room(self._bytes(count))
        vectors, ids = np.empty((count, self._dimensions), np.float32), list[str]()
        for owner, some_ids, content in connection.execute(
            "SELECT chat_id, ids, vectors FROM blocks WHERE chat_no = ? ORDER BY block_no", (number,)
        ):
            named = orjson.loads(some_ids)
            room = len(named) * self._dimensions * STORED.itemsize
            if owner != chat_id or len(content) != room or len(ids) + len(named) > count:
                raise self._refused("has a block that does not fit its chat")
            block = np.frombuffer(content, STORED).reshape(-1, self._dimensions)
            vectors[len(ids) : len(ids) + len(named)] = block
            ids += named
        if len(ids) != count:
            raise self._refused(f"holds {len(ids)} of {count} vectors of a chat")
        chat = ChatVectors(ids, vectors, {one: row for row, one in enumerate(ids)} | orjson.loads(repeated))
        with self._keeping:
            self._kept[chat_id] = chat
        return chat

    def _bytes(self, count: int) -> int:
        return count * (self._dimensions * 4 + ROW_BYTES)

    def _make_room(self, size: int) -> None:
        """Forget the chats that were asked longest ago, before more memory is taken."""
        with self._keeping:
            taken = size + sum(self._bytes(len(chat.ids)) for chat in self._kept.values())
            while self._kept and taken > self._cache_bytes:
                _, oldest = self._kept.popitem(last=False)
                taken -= self._bytes(len(oldest.ids))

    def _refused(self, why: str) -> ReleaseRefused:
        return ReleaseRefused(f"{self._path} {why}. Run the night again.")


@contextmanager
def _to_prove(path: Path, dimensions: int) -> Iterator[VectorFile]:
    with damage_named(path), closing(VectorFile(path, dimensions, cache_bytes=0)) as file:
        yield file


def check(path: Path, chats: Chats, repeats: Repeats | None = None) -> dict[str, int]:
    """Prove the closed file, which stays as it is; the number of vectors by chat, repeated ones not counted.

    Every chat and no other has its rows, each with its id and its vector, byte for byte; every SELF_CHECK_EVERY-th finds itself; each
    repeated chunk leads to its first. ReleaseRefused if something is missing or too much, StorageError if the file is damaged.
    """
    check_database(path)
    dimensions = next((vectors.shape[1] for _, vectors in chats.values()), 0)
    with _to_prove(path, dimensions) as file:
        counted, wanted = file.chats(), {chat_id: len(ids) for chat_id, (ids, _) in chats.items()}
        if counted != wanted:
            wrong = sum(counted.get(chat) != wanted.get(chat) for chat in {*counted, *wanted})
            raise ReleaseRefused(
                f"{path} has {wrong} chats that are not as they were given to it. Run the night again."
            )
        for chat_id, (ids, vectors) in chats.items():
            _check_chat(file, chat_id, ids, vectors, (repeats or {}).get(chat_id, {}))
    return counted


def _check_chat(
    file: VectorFile, chat_id: str, ids: Sequence[str], vectors: Vectors, repeats: Mapping[str, str]
) -> None:
    stored = file.chat(chat_id)
    rows = {one: row for row, one in enumerate(ids)}
    wanted = rows | {one: rows[first] for one, first in repeats.items()}
    if stored is None or stored.ids != list(ids) or stored.rows != wanted:
        raise ReleaseRefused("SQLite holds other chunks of a chat than were given to it. Run the night again.")
    if not np.array_equal(stored.vectors, vectors.astype(STORED).astype(np.float32)):
        raise ReleaseRefused("SQLite holds other vectors of a chat than were given to it. Run the night again.")
    for row in range(0, len(ids), max(SELF_CHECK_EVERY, -(-len(ids) // SELF_CHECKS_PER_CHAT))):
        (best,) = stored.nearest(vectors[row], 1)
        if best.score < SAME:
            raise ReleaseRefused(f"SQLite does not find the vector of chunk {ids[row]}. Run the night again.")


class SqliteBackend(AskingBackend):
    """Searches the vectors of one release, in place."""

    name = "sqlite"

    def __init__(self, settings: Settings, release: Path, indexed_with: EmbeddingIdentity | None) -> None:
        super().__init__(settings, release, indexed_with)
        self._file: VectorFile | None = None

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:
        asker, chat = self._asker, self._chat(chat_id)
        return chat.nearest(asker.vector(query), k) if asker and chat else []

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        asker, chat = self._asker, self._chat(chat_id)
        if asker is None or chat is None:
            return np.full(len(chunk_ids), np.nan, dtype=np.float32)
        return chat.compare(asker.vector(query), chunk_ids)

    def _chat(self, chat_id: str) -> ChatVectors | None:
        file = self._file
        return file.chat(chat_id) if file and self._why is None else None

    def _has_index(self) -> bool:
        return (self._release / VECTORS).is_file()

    def _open_index(self) -> None:
        verify(self._release)
        self._file = VectorFile(self._release / VECTORS, self._indexed_with.dimensions if self._indexed_with else 0)

    def _close_index(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
