"""LanceDB, embedded: two tables in `lancedb/`. An index of the chat's key leads to its rows, and these are compared one by one, so a search is exact.

    vectors    chat (`chat_key`), chat_id, chunk_id, vector (float16); a bitmap index on `chat`
    chats      chat, chat_id, vectors (how many), repeated (chunk id -> the chunk whose vector equals its own)

A filter never holds a chat's id, only its key, and each row's id is compared on the way out. One table of 100,000 x 384 takes a second to
write, so each night writes it anew, and 78 MB as float16 (155 MB as float32, for a rounding of 0.00006 in a similarity).

Lance opens data files when it needs them, so a reader has a directory of links to them: what is removed meanwhile can still be read. Its
threads belong to the process and stay when an index is closed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from shared.errors import HmemError, ReleaseRefused, StorageError
from shared.release.manifest import verify
from shared.release.parts import Earlier
from shared.system.files import link_or_copy, make_dir
from shared.vectors.base import Builder, Checked, Corpus, VectorIndex
from shared.vectors.searching import AskingBackend, in_order
from shared.vectors.vector_files import CACHE_BYTES, STORED, ChatVectors, KeptChats

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


class LanceIndex:
    """A reader of `lancedb/`; threads may share it. RuntimeError or another error of Lance's, or ReleaseRefused, if a file is damaged."""

    def __init__(self, place: Path, dimensions: int, cache_bytes: int = CACHE_BYTES) -> None:
        self._place, self._dimensions = place, dimensions
        self.kept = KeptChats(self.read, dimensions, cache_bytes)
        database = connect(place)
        chats = database.open_table(CHATS)
        layout = (chats.schema.metadata or {}).get(b"layout", b"").decode()
        if layout != str(LAYOUT):
            raise refused(place, f"has layout {layout}, this program knows {LAYOUT}")
        found = chats.search().select(["chat_id", "vectors", "repeated"]).to_arrow().to_pydict()
        #: Of each chat how many vectors it has; and, as JSON, chunk id -> the chunk whose vector equals its own.
        self.chats: dict[str, int] = dict(zip(found["chat_id"], found["vectors"], strict=True))
        self.repeated: dict[str, bytes] = dict(zip(found["chat_id"], found["repeated"], strict=True))
        self.table = database.open_table(TABLE) if any(self.chats.values()) else None
        if self.table is not None and self.table.schema.field("vector").type.list_size != dimensions:
            raise refused(place, f"has vectors that are not of {dimensions} dimensions")

    def chat(self, chat_id: str) -> ChatVectors | None:
        """A chat's vectors, from memory if it was asked lately; None for an unknown chat."""
        return self.kept.get(chat_id) if chat_id in self.chats else None

    def read(self, chat_id: str) -> ChatVectors:
        """The same from the files, through the index of chats."""
        count = self.chats[chat_id]
        self.kept.room(count)
        vectors, ids = np.empty((count, self._dimensions), np.float32), list[str]()
        for batch in self._rows(chat_id):
            if batch["chat_id"].unique().to_pylist() != [chat_id] or len(ids) + batch.num_rows > count:
                raise refused(self._place, "has a row that does not fit its chat")
            vectors[len(ids) : len(ids) + batch.num_rows] = (
                batch["vector"].flatten().to_numpy().reshape(batch.num_rows, -1)
            )
            ids += batch["chunk_id"].to_pylist()
        if len(ids) != count:
            raise refused(self._place, f"holds {len(ids)} of {count} vectors of a chat")
        rows = {one: row for row, one in enumerate(ids)}
        rows |= {one: rows[first] for one, first in orjson.loads(self.repeated[chat_id]).items() if first in rows}
        return ChatVectors(ids, vectors, rows)

    def _rows(self, chat_id: str) -> Iterator[Any]:
        if self.table is not None:
            query = self.table.search().select(["chat_id", "chunk_id", "vector"])
            yield from query.where(f"chat = '{chat_key(chat_id)}'").to_batches(BLOCK_ROWS)


class LanceBuilder(Builder):
    """Builds `lancedb/`."""

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:  # noqa: ARG002 - it is not in parts
        """As in `Builder`."""
        make_dir(place)
        with _named(place, "written"):
            _write_chats(place, corpus)
            if len(corpus):
                _write_vectors(place, corpus)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002 - read in place, all of it
        """As in `Builder`. Every vector is read as by day, through the index of chats, and compared byte for byte."""
        with _named(place, "read"):
            index = LanceIndex(place, corpus.dimensions)
            counted = {chat_id: count for chat_id, count in index.chats.items() if count}
            wanted = {chat_id: len(ids) for chat_id, (ids, _) in corpus.chats.items() if len(ids)}
            if wrong := sum(counted.get(chat) != wanted.get(chat) for chat in {*counted, *wanted}):
                raise refused(place, f"has {wrong} chats that are not as they were given to it")
            repeats = {chat_id: orjson.loads(again) for chat_id, again in index.repeated.items() if again != b"{}"}
            if repeats != {chat_id: dict(again) for chat_id, again in corpus.repeats.items() if again}:
                raise refused(place, "repeats other chunks than were given to it")
            _check_files(place, index)
            for chat_id in counted:
                _check_chat(place, index.read(chat_id), *corpus.chats[chat_id])
        return Checked(counted)


@contextmanager
def _named(place: Path, what: str) -> Iterator[None]:
    """Whatever LanceDB raises (also a panic of its Rust part) as a StorageError."""
    try:
        yield
    except HmemError:
        raise
    except BaseException as error:
        if not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise
        raise StorageError(
            f"The LanceDB index {place} could not be {what} ({error!r}). Check the disk, then run the night again."
        ) from error


def _link_tree(source: Path, target: Path) -> None:
    """The same files in another directory; copies where a link cannot be (another file system, or another user's files)."""
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(mode=0o700, exist_ok=True)  # the source's own modes may forbid to remove what is in it
        for name in names:
            link_or_copy(Path(folder) / name, into / name)


def _write_chats(place: Path, corpus: Corpus) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]

    chats, sizes = list({**corpus.chats, **corpus.repeats}), corpus.sizes()
    counts = [sizes.get(chat_id, 0) for chat_id in chats]
    repeated = [orjson.dumps(dict(corpus.repeats.get(chat_id, {}))) for chat_id in chats]
    fields = [("chat", pa.string()), ("chat_id", pa.string()), ("vectors", pa.int64()), ("repeated", pa.binary())]
    schema = pa.schema(fields, metadata={"layout": str(LAYOUT)})
    rows = pa.table([[chat_key(chat_id) for chat_id in chats], chats, counts, repeated], schema=schema)
    connect(place).create_table(CHATS, rows)


def _write_vectors(place: Path, corpus: Corpus) -> None:
    import pyarrow as pa
    from lancedb.index import Bitmap

    vector = pa.list_(pa.float16(), corpus.dimensions)
    schema = pa.schema([("chat", pa.string()), ("chat_id", pa.string()), ("chunk_id", pa.string()), ("vector", vector)])

    def batches() -> Iterator[Any]:
        for owners, ids, vectors in _blocks(corpus):
            stored = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(STORED).reshape(-1)), corpus.dimensions)
            yield pa.record_batch([[chat_key(owner) for owner in owners], owners, ids, stored], schema=schema)

    table = connect(place).create_table(TABLE, pa.RecordBatchReader.from_batches(schema, batches()))
    table.create_index("chat", config=Bitmap())


def _blocks(corpus: Corpus) -> Iterator[tuple[list[str], list[str], Vectors]]:
    """(chat ids, chunk ids, vectors) of all rows, some BLOCK_ROWS at a time, of as many chats as it takes."""
    owners, names, parts = list[str](), list[str](), list["Vectors"]()
    for chat_id, (ids, vectors) in corpus.chats.items():
        for start in range(0, len(ids), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            names += ids[block]
            owners += [chat_id] * (len(names) - len(owners))
            parts.append(vectors[block])
            if len(names) >= BLOCK_ROWS:
                yield owners, names, np.concatenate(parts)
                owners, names, parts = [], [], []
    if names:
        yield owners, names, np.concatenate(parts)


def _check_files(place: Path, index: LanceIndex) -> None:
    """No file of another index, in which there might be what is not wanted."""
    if index.table is None:
        if table_dir(place).exists():
            raise refused(place, "has vectors though no chat has any")
        return
    fragments = index.table.stats()["fragment_stats"]["num_fragments"]
    indexed = index.table.index_stats("chat_idx")
    if indexed is None or indexed.num_unindexed_rows or indexed.num_indexed_rows != sum(index.chats.values()):
        raise refused(place, "has rows that its index does not know")
    indexes = list((table_dir(place) / "_indices").iterdir())
    if len(data_files(place)) != fragments or len(indexes) != 1:
        raise refused(place, "has files that do not belong to it")


def _check_chat(place: Path, stored: ChatVectors, ids: Sequence[str], vectors: Vectors) -> None:
    """What was given of a chat is there; its count has shown that there is no more."""
    rows = [stored.rows.get(one, -1) for one in ids]
    if min(rows) < 0:
        raise refused(place, "holds other chunks of a chat than were given to it")
    if not np.array_equal(stored.vectors[rows], vectors.astype(STORED)):
        raise refused(place, "holds other vectors of a chat than were given to it")


class LanceBackend(AskingBackend):
    """Searches the index of one release. The import alone takes 2 s and 130 MB."""

    name = "lancedb"

    def _open_index(self) -> LanceIndex:
        verify(self._release)
        links = self._private_dir()
        _link_tree(self._place, links)
        return LanceIndex(links, self._indexed_with.dimensions if self._indexed_with else 0)

    def _compared(self, index: LanceIndex, vector: Vectors, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """Of all chunks, repeated ones too, compared in memory."""
        chat = index.chat(chat_id)
        return chat.compare(vector, chunk_ids) if chat else in_order({}, chunk_ids)


INDEX = VectorIndex(lambda _, __: LanceBuilder(), LanceBackend)
