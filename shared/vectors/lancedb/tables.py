"""What stands in `lancedb/`, and how a chat is read from it.

    vectors    chat (`chat_key`), chat_id, chunk_id, vector (float16); a bitmap index on `chat`
    chats      chat, chat_id, vectors (how many), repeated (chunk id -> the chunk whose vector equals its own)

A filter never holds a chat's id, only its key, and each row's id is compared on the way out. One table of 100,000 x 384 takes a second to
write and 78 MB as float16 (155 MB as float32, for a rounding of 0.00006 in a similarity); one of 20 chats is searched in 5 ms, without the
bitmap in 90 ms. `_distance` is asked for by name, or Lance prints a warning for each search.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from shared.errors import ReleaseRefused
from shared.ranking.question import Match
from shared.vectors.sqlite.files import CACHE_BYTES, ChatVectors, KeptChats

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

TABLE, CHATS = "vectors", "chats"
#: Raise it when the tables are laid out in another way.
LAYOUT = 2
#: Rows that are given to Lance, or taken from it, at once.
BLOCK_ROWS = 8192
#: Lance's own caches of indexes and of metadata, each (its defaults are 6 GB and 1 GB).
LANCE_CACHE_BYTES = 32 << 20


def connect(place: Path) -> Any:
    """LanceDB on the directory of an index, with caches that have an end."""
    import lancedb

    session = lancedb.Session(LANCE_CACHE_BYTES, LANCE_CACHE_BYTES)
    return lancedb.connect(str(place.resolve()), session=session)


def table_dir(place: Path) -> Path:
    return place / f"{TABLE}.lance"


def data_files(place: Path) -> list[str]:
    return sorted(path.name for path in (table_dir(place) / "data").glob("*"))


def refused(place: Path, why: str) -> ReleaseRefused:
    return ReleaseRefused(f"{place} {why}. Run the night again.")


def chat_key(chat_id: str) -> str:
    """A chat as a filter names it: it needs no quoting."""
    return hashlib.blake2b(chat_id.encode("utf-8"), digest_size=16).hexdigest()


def _is_chat(chat_id: str) -> str:
    return f"chat = '{chat_key(chat_id)}'"


def stored_vectors(batch: Any) -> Any:
    """The vectors of a batch, shape (n, dimensions), as they are stored."""
    return batch["vector"].flatten().to_numpy().reshape(batch.num_rows, -1)


class LanceIndex:
    """A reader of `lancedb/`; threads may share it. RuntimeError or another error of Lance's, or ReleaseRefused, if a file is damaged."""

    def __init__(self, place: Path, dimensions: int, cache_bytes: int = CACHE_BYTES) -> None:
        self._place, self._dimensions = place, dimensions
        self.kept = KeptChats(self._read, dimensions, cache_bytes)
        database = connect(place)
        self._chats = database.open_table(CHATS)
        layout = (self._chats.schema.metadata or {}).get(b"layout", b"").decode()
        if layout != str(LAYOUT):
            raise refused(place, f"has layout {layout}, this program knows {LAYOUT}")
        found = self._chats.search().select(["chat_id", "vectors"]).to_arrow().to_pydict()
        #: How many vectors each chat has.
        self.chats: dict[str, int] = dict(zip(found["chat_id"], found["vectors"], strict=True))
        self.table = database.open_table(TABLE) if any(self.chats.values()) else None
        if self.table is not None and self.table.schema.field("vector").type.list_size != dimensions:
            raise refused(place, f"has vectors that are not of {dimensions} dimensions")

    def batches(self, columns: list[str], chat_id: str | None = None) -> Iterator[Any]:
        """The rows of all chats, or of one."""
        if self.table is None:
            return
        query = self.table.search().select(columns)
        yield from (query if chat_id is None else query.where(_is_chat(chat_id))).to_batches(BLOCK_ROWS)

    def repeats(self) -> dict[str, dict[str, str]]:
        """Of each chat that has any: chunk id -> the chunk whose vector equals its own."""
        found = self._chats.search().select(["chat_id", "repeated"]).to_arrow().to_pydict()
        repeats = zip(found["chat_id"], map(orjson.loads, found["repeated"]), strict=True)
        return {chat_id: again for chat_id, again in repeats if again}

    def indexed(self, chat_id: str) -> int:
        """How many rows a search for this chat goes through."""
        return int(self.table.count_rows(_is_chat(chat_id))) if self.table is not None else 0

    def nearest(self, vector: Vectors, chat_id: str, k: int) -> list[Match]:
        """The chat's k most similar rows, best first."""
        if k < 1 or self.table is None or not self.chats.get(chat_id):
            return []
        query = self.table.search(vector, vector_column_name="vector").distance_type("cosine")
        query = query.where(_is_chat(chat_id), prefilter=True)
        found = query.limit(k).select(["chat_id", "chunk_id", "_distance"]).to_arrow().to_pydict()
        if any(owner != chat_id for owner in found["chat_id"]):
            raise refused(self._place, "has a row that does not fit its chat")
        return [Match(one, 1.0 - distance) for one, distance in zip(found["chunk_id"], found["_distance"], strict=True)]

    def chat(self, chat_id: str) -> ChatVectors | None:
        """A chat's vectors, from memory if it was asked lately; None for an unknown chat."""
        return self.kept.get(chat_id) if chat_id in self.chats else None

    def _read(self, chat_id: str) -> ChatVectors:
        count = self.chats[chat_id]
        self.kept.room(count)
        vectors, ids = np.empty((count, self._dimensions), np.float32), list[str]()
        for batch in self.batches(["chat_id", "chunk_id", "vector"], chat_id):
            if batch["chat_id"].unique().to_pylist() != [chat_id] or len(ids) + batch.num_rows > count:
                raise refused(self._place, "has a row that does not fit its chat")
            vectors[len(ids) : len(ids) + batch.num_rows] = stored_vectors(batch)
            ids += batch["chunk_id"].to_pylist()
        if len(ids) != count:
            raise refused(self._place, f"holds {len(ids)} of {count} vectors of a chat")
        rows = {one: row for row, one in enumerate(ids)}
        told = self._chats.search().where(_is_chat(chat_id)).select(["repeated"]).to_arrow()["repeated"].to_pylist()
        rows |= {one: rows[first] for one, first in orjson.loads(told[0]).items() if first in rows}
        return ChatVectors(ids, vectors, rows)
