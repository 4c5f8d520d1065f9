"""Notes of a release: what a model wrote about turns by night, as further keys to them (nightly/steps/note.py).

A note is a chunk of its own in `notes/`, named after the chunk that it describes (`<chunk id>~<number>`), with a vector in `note_vectors/`. A
lookup compares the question with every note of the chat and gives each chunk the best of its notes; no note is ever returned.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cachetools import LRUCache

from shared.ranking.scoring import Array, Integers, own_bm25
from shared.search.chat_items import ChatItems
from shared.search.lexical import ITEMS_KEPT, LexicalIndex, room_of
from shared.vectors.vector_files import VectorFile

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Bytes of the notes' vectors in memory.
VECTOR_CACHE_BYTES = 64_000_000


class NoteIndex:
    """Reader of the notes of one release. May be used from several threads."""

    def __init__(self, words: Path, vectors: Path, dimensions: int | None) -> None:
        """`dimensions` of the vectors, None if there are none. sqlite3.Error or ReleaseRefused if a file is damaged."""
        self._words = LexicalIndex(words)
        self._vectors = VectorFile(vectors, dimensions, VECTOR_CACHE_BYTES) if dimensions is not None else None
        self._kept: LRUCache[str, ChatNotes] = LRUCache(ITEMS_KEPT, getsizeof=lambda one: room_of(len(one.notes)))
        self._lock = threading.Lock()

    def close(self) -> None:
        self._words.close()
        if self._vectors:
            self._vectors.close()

    def of_chat(self, chunks: ChatItems) -> ChatNotes | None:
        """The notes of a chat's chunks; None if it has none. sqlite3.Error if they cannot be read."""
        with self._lock:
            kept = self._kept.get(chunks.chat_id)
        if kept is not None and kept.chunks is chunks:
            return kept
        notes = self._words.items(chunks.chat_id)
        if notes is None:
            return None
        rows = {chunk_id: row for row, chunk_id in enumerate(chunks.chunk_ids)}
        of = np.array([rows.get(note_id.rpartition("~")[0], -1) for note_id in notes.chunk_ids], np.int32)
        made = ChatNotes(chunks, notes, of, self._words, self._vectors)
        with self._lock:
            self._kept[chunks.chat_id] = made
        return made


@dataclass(frozen=True, eq=False)
class ChatNotes:
    """The notes of one chat. `of`: shape (notes,), the row of the chunk that each describes, -1 if that is gone."""

    chunks: ChatItems
    notes: ChatItems
    of: Integers
    words: LexicalIndex
    vectors: VectorFile | None

    def by_words(self, terms: Sequence[str]) -> Array:
        """BM25 of each chunk's best note, shape (chunks,); 0 where no note has one of the terms. sqlite3.Error if they cannot be read."""
        found = self.words.postings(self.notes, terms)
        return self._best(own_bm25(found.values(), self.notes.features), np.zeros(len(self.chunks), np.float32))

    def best(self, similarities: Vectors, question: Vectors) -> Vectors:
        """The cosines of the chunks, shape (chunks,), raised to that of a note which is nearer to the question."""
        stored = self.vectors.chat(self.chunks.chat_id) if self.vectors else None
        if stored is None:
            return similarities
        return self._best(stored.compare(question, self.notes.chunk_ids), similarities.astype(np.float32))

    def _best(self, of_notes: Array, of_chunks: Array) -> Array:
        known = self.of >= 0
        np.fmax.at(of_chunks, self.of[known], of_notes[known])
        return of_chunks
