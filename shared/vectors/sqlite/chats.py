"""The vectors of one chat in memory, compared one by one, so that a search is exact; and the chats that were asked for last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from cachetools import LRUCache

from shared.ranking.question import Match

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shared.embedding.models import Vectors

#: Memory for vectors of chats that were searched lately; the newest one stays even if it alone is larger.
CACHE_BYTES = 176 << 20
#: What a row takes beside its vector: the chunk id, twice pointed to (measured).
ROW_BYTES = 180
#: From this part of a chat on, all its rows are compared: cheaper than a copy of those that are asked for.
MANY = 8


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
