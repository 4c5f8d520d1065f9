"""What the vector indexes of a night hold: of each chat its distinct vectors, each under the id of the first chunk that has it."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from cachetools import LRUCache

from nightly.index.chunk_file import ChunkFolder
from nightly.night.folder import Night
from shared.errors import LedgerMismatch
from shared.vectors.base import Corpus

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: In the folder of the embed step: the centre of each chat (shared/embedding/centring.py), in the order of the chunks.
CENTRES = "centres.npy"
#: Bytes of the digest that distinguishes vectors.
DIGEST_BYTES = 16
#: Rows that are looked at together, and rows whose ids are kept: some 300 bytes each.
AT_ONCE, KEPT_ROWS = 4096, 200_000
#: Rows of vectors that are in memory at most, beside those of the chat that is asked for.
MOST_ROWS = 32_768


class MappedRows:
    """`vectors.npy`: one vector a chunk, in the order of the chunks, shape (rows, dimensions), float32, mapped into memory.

    Pages of a mapped file count as memory of the process that looked at them until it gives them back, so all vectors of a night that does every
    chat would: 1.5 GB for a million turns. What was written to them is in the file.
    """

    def __init__(self, path: Path, *, write: bool = False) -> None:
        """ValueError if it is no such file."""
        import numpy as np

        mapped = np.lib.format.open_memmap(path, mode="r+" if write else "r")
        if mapped.ndim != 2 or mapped.dtype != np.float32:
            raise ValueError(f"{path} has no vectors")
        self.shape: tuple[int, ...] = mapped.shape
        self._mapping, self._rows = cast(mmap.mmap, mapped.base), np.asarray(mapped)
        self._looked_at = 0

    def __len__(self) -> int:
        return int(self.shape[0])

    def looking_at(self, count: int) -> Vectors:
        """All rows, for somebody who looks at so many of them."""
        self._looked_at += count
        if self._looked_at > MOST_ROWS:
            self._looked_at = count
            self._mapping.madvise(mmap.MADV_DONTNEED)
        return self._rows


def write_zeros(path: Path, rows: int, dimensions: int) -> MappedRows:
    """A new file of zeros, to be written to. OSError if the disk has no room for it: a write to a page without room would kill us (SIGBUS)."""
    import numpy as np

    np.lib.format.open_memmap(path, mode="w+", dtype="<f4", shape=(rows, dimensions))
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return MappedRows(path, write=True)


@dataclass(frozen=True)
class RowsOfChat:
    """The rows of one chat, and the chunks that have none: their vector equals an earlier one's, or the embedder refused them.

    Equal vectors are the same words of the same speaker on the same day. They are indexed once since HNSW links equal vectors to each other
    only: 288 equal ones a day for ten days cut off a tenth of the chat's other vectors from every search. (And an exact search would answer
    with nothing else.)
    """

    numbers: list[int] = field(default_factory=list)  # rows of vectors.npy, one an id
    ids: list[str] = field(default_factory=list)
    repeats: dict[str, str] = field(default_factory=dict)  # chunk -> the one with that vector
    not_embedded: int = 0


class RowCounts(NamedTuple):
    """Distinct vectors, chunks that repeat one, chunks that have none."""

    vectors: int
    repeats: int
    not_embedded: int


class Rows:
    """The rows of tonight's chats; one chat is read at a time."""

    def __init__(self, folder: ChunkFolder, path: Path, refused: Collection[str]) -> None:
        """LedgerMismatch unless chunks = vectors + not embedded."""
        self._folder, self._refused = folder, refused
        self._vectors = MappedRows(path)
        if len(self._vectors) != len(folder) or self._without() != len(refused):
            raise self._mismatch()
        self._kept: LRUCache[str, RowsOfChat] = LRUCache(KEPT_ROWS, lambda chat: min(KEPT_ROWS, 1 + len(chat.ids)))
        self._counts: dict[str, RowCounts] = {}

    @property
    def chats(self) -> list[str]:
        return list(self._folder.chats)

    def chat(self, chat_id: str) -> RowsOfChat:
        """Those of one chat; the chats asked for last are kept."""
        if chat_id not in self._kept:
            self._kept[chat_id] = self._read(chat_id)
        return self._kept[chat_id]

    def counts(self, chat_id: str) -> RowCounts:
        """How many a chat has."""
        if chat_id not in self._counts:
            made = self.chat(chat_id)
            self._counts[chat_id] = RowCounts(len(made.ids), len(made.repeats), made.not_embedded)
        return self._counts[chat_id]

    @property
    def dimensions(self) -> int:
        return int(self._vectors.shape[1])

    @cached_property
    def total(self) -> int:
        """Distinct vectors of all chats."""
        return sum(self.counts(chat_id).vectors for chat_id in self.chats)

    def vectors(self, chat_id: str) -> Vectors:
        """The vectors of a chat's rows, shape (n, dimensions); without copying if they are consecutive."""
        rows = self.chat(chat_id).numbers
        vectors = self._vectors.looking_at(len(rows))
        if rows and rows[-1] - rows[0] == len(rows) - 1:
            return vectors[rows[0] : rows[-1] + 1]
        return vectors[rows]

    def corpus(self) -> Corpus:
        """All of them, for an index that is not in parts."""
        found = {chat_id: self.chat(chat_id) for chat_id in self.chats}
        return Corpus(
            {chat_id: (one.ids, self.vectors(chat_id)) for chat_id, one in found.items() if one.ids},
            {chat_id: one.repeats for chat_id, one in found.items() if one.repeats},
        )

    def _read(self, chat_id: str) -> RowsOfChat:
        import numpy as np

        made, first = RowsOfChat(), dict[str, str]()
        rows, not_embedded = self._folder.chats.get(chat_id, range(0)), 0
        vectors = self._vectors.looking_at(len(rows))
        content = vectors.view("u1")
        embedded = {rows.start + row for row in np.flatnonzero(vectors[rows.start : rows.stop].any(axis=1)).tolist()}
        for row, chunk_id in zip(rows, self._folder.ids(chat_id), strict=True):
            if row not in embedded:
                if chunk_id not in self._refused:
                    raise self._mismatch()
                not_embedded += 1
                continue
            digest = hashlib.sha256(content[row].data).digest()[:DIGEST_BYTES].hex()
            earlier = first.setdefault(digest, chunk_id)
            if earlier != chunk_id:
                made.repeats[chunk_id] = earlier
                continue
            made.ids.append(chunk_id)
            made.numbers.append(row)
        return RowsOfChat(made.numbers, made.ids, made.repeats, not_embedded)

    def _without(self) -> int:
        """Rows of zeros."""
        starts = range(0, len(self._vectors), AT_ONCE)
        parts = (self._vectors.looking_at(AT_ONCE)[start : start + AT_ONCE] for start in starts)
        return sum(len(part) - int(part.any(axis=1).sum()) for part in parts)

    def _mismatch(self) -> LedgerMismatch:
        return LedgerMismatch(
            f"The {len(self._vectors)} vectors do not belong to the chunks that were made. Nothing was published; run the night again."
        )


def read_rows(night: Night, folder: ChunkFolder) -> Rows:
    """From the chunks and their vectors."""
    return Rows(folder, night.output("embed") / "vectors.npy", night.result("embed")["refused"])


def read_note_rows(night: Night, folder: ChunkFolder) -> Rows:
    """The same of the notes."""
    return Rows(folder, night.output("embed") / "note_vectors.npy", night.result("embed")["notes_refused"])
