"""LanceDB, embedded: two tables in `lancedb/` (shared/vectors/lancedb/tables.py). A search is exact: an index of the chat's key leads to its rows,
and these are compared one by one.

Each night writes it anew: 100,000 vectors take a second.

Lance opens data files when it needs them, so a reader has a directory of links to them: what is removed meanwhile can still be read. Its
threads belong to the process and stay when an index is closed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from shared.config.settings import Settings
from shared.embedding.models import EmbeddingIdentity
from shared.errors import HmemError, StorageError
from shared.ranking.question import Match
from shared.release.manifest import verify
from shared.release.parts import Earlier
from shared.system.files import link_or_copy, make_dir
from shared.vectors.base import Checked, Corpus, VectorIndex, refuse_without_library
from shared.vectors.lancedb.tables import (
    BLOCK_ROWS,
    CHATS,
    LAYOUT,
    TABLE,
    LanceIndex,
    chat_key,
    connect,
    data_files,
    refused,
    stored_vectors,
    table_dir,
)
from shared.vectors.searching import AskingBackend
from shared.vectors.sqlite.files import STORED

if TYPE_CHECKING:
    from shared.embedding.models import Vectors


class LanceBuilder:
    """Builds `lancedb/`."""

    def refuse_unless_usable(self) -> None:
        refuse_without_library("lancedb")

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:  # noqa: ARG002 - it is not in parts
        """As in `Builder`."""
        make_dir(place)
        with _named(place, "written"):
            _write_chats(place, corpus)
            if len(corpus):
                _write_vectors(place, corpus)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002 - read in place, all of it
        """As in `Builder`. Every vector is compared byte for byte, and every chat is counted through the index that a search goes by."""
        with _named(place, "read"):
            index = LanceIndex(place, corpus.dimensions, cache_bytes=0)
            counted = {chat_id: count for chat_id, count in index.chats.items() if count}
            wanted = {chat_id: len(ids) for chat_id, (ids, _) in corpus.chats.items() if len(ids)}
            if counted != wanted:
                wrong = sum(counted.get(chat) != wanted.get(chat) for chat in {*counted, *wanted})
                raise refused(place, f"has {wrong} chats that are not as they were given to it")
            if index.repeats() != {chat_id: dict(again) for chat_id, again in corpus.repeats.items() if again}:
                raise refused(place, "repeats other chunks than were given to it")
            _check_files(place, index)
            _check_rows(place, index, corpus)
            if any(index.indexed(chat_id) != count for chat_id, count in counted.items()):
                raise refused(place, "has an index that does not lead to all rows of a chat")
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


def _check_rows(place: Path, index: LanceIndex, corpus: Corpus) -> None:
    """Each row that was given is there, under its chat's key, byte for byte; `_check_files` has proven that there are no more."""
    rows = {chat_id: {one: row for row, one in enumerate(ids)} for chat_id, (ids, _) in corpus.chats.items()}
    seen = {chat_id: np.zeros(len(ids), np.bool_) for chat_id, (ids, _) in corpus.chats.items()}
    for batch in index.batches(["chat", "chat_id", "chunk_id", "vector"]):
        stored, chunk_ids = stored_vectors(batch), batch["chunk_id"].to_pylist()
        for part, key, chat_id in _runs(batch):
            known = rows.get(chat_id, {})
            at = np.array([known.get(one, -1) for one in chunk_ids[part]])
            if at.min() < 0 or key != chat_key(chat_id):
                raise refused(place, "holds other chunks of a chat than were given to it")
            if not np.array_equal(stored[part], corpus.chats[chat_id][1][at].astype(STORED)):
                raise refused(place, "holds other vectors of a chat than were given to it")
            seen[chat_id][at] = True
    if not all(those.all() for those in seen.values()):
        raise refused(place, "holds too few chunks of a chat")


def _runs(batch: Any) -> Iterator[tuple[slice, str, str]]:
    """(rows, chat's key, chat id) of each stretch of rows of one chat."""
    start = 0
    for owner, rows in groupby(zip(batch["chat"].to_pylist(), batch["chat_id"].to_pylist(), strict=True)):
        end = start + sum(1 for _ in rows)
        yield slice(start, end), *owner
        start = end


class LanceBackend(AskingBackend):
    """Searches the index of one release. The import alone takes 2 s and 130 MB."""

    name = "lancedb"

    def __init__(self, settings: Settings, release: Path, indexed_with: EmbeddingIdentity | None) -> None:
        super().__init__(settings, release, indexed_with)
        self._index: LanceIndex | None = None

    def _nearest(self, vector: Vectors, chat_id: str, k: int) -> list[Match]:
        index = self._index
        return index.nearest(vector, chat_id, k) if index else []

    def _compared(self, vector: Vectors, chat_id: str, chunk_ids: Sequence[str]) -> Vectors:
        """Of all chunks, repeated ones too, compared in memory."""
        index = self._index
        chat = index.chat(chat_id) if index else None
        return chat.compare(vector, chunk_ids) if chat else np.full(len(chunk_ids), np.nan, dtype=np.float32)

    def _open_index(self) -> None:
        verify(self._release)
        links = self._private_dir()
        _link_tree(self._place, links)
        self._index = LanceIndex(links, self._indexed_with.dimensions if self._indexed_with else 0)

    def _close_index(self) -> None:
        self._index = None


INDEX = VectorIndex(lambda _, __: LanceBuilder(), LanceBackend)
