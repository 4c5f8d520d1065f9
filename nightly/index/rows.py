"""What the vector indexes of a night hold: for each chat its distinct vectors, each under the id of the first chunk that has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from nightly.index.chunk_file import Columns, digest_of_bytes
from nightly.night.folder import Night
from shared.errors import LedgerMismatch
from shared.vectors.base import Corpus

if TYPE_CHECKING:
    from shared.embedding.models import Vectors


@dataclass(frozen=True)
class Rows:
    """The rows of the vector indexes, and by chat the chunks that have none: their vector equals an earlier one's, or the embedder refused them.

    Equal vectors are the same words of the same speaker on the same day. They are indexed once since HNSW links equal vectors to each other
    only: 288 equal ones a day for ten days cut off a tenth of the chat's other vectors from every search. (And an exact search would answer
    with nothing else.)
    """

    corpus: Corpus
    digests: dict[str, dict[str, str]]  # chat id -> chunk id -> digest of its vector
    not_embedded: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return sum(map(len, self.digests.values()))

    def among(self, held: Mapping[str, Iterable[str]]) -> int:
        """How many of the rows are among these chunks (by chat); a chunk that repeats another has no row."""
        return sum(one in self.digests.get(chat_id, ()) for chat_id, ids in held.items() for one in ids)

    def repeated(self, chat_id: str) -> int:
        return len(self.corpus.repeats.get(chat_id, ()))

    @cached_property
    def wanted(self) -> dict[str, dict[str, str]]:
        """The digests, with those of repeated chunks: the chunk that each repeats."""
        repeats = self.corpus.repeats
        return {
            chat: self.digests.get(chat, {}) | {one: f"={first}" for one, first in repeats.get(chat, {}).items()}
            for chat in {**self.digests, **repeats}
        }


def read_rows(night: Night, columns: Columns) -> Rows:
    """From the chunks and their vectors; LedgerMismatch unless chunks = vectors + not embedded."""
    return _rows(columns, night.output("embed") / "vectors.npy", night.result("embed")["refused"])


def read_note_rows(night: Night, columns: Columns) -> Rows:
    """The same of the notes."""
    return _rows(columns, night.output("embed") / "note_vectors.npy", night.result("embed")["notes_refused"])


def _rows(columns: Columns, path: Path, refused: Container[str]) -> Rows:
    import numpy as np

    vectors: Vectors = np.asarray(np.load(path, mmap_mode="r"))
    embedded, content = set(np.flatnonzero(vectors.any(axis=1)).tolist()), vectors.view(np.uint8)
    numbers: dict[str, list[int]] = {}
    said_at: dict[str, list[float]] = {}
    first: dict[tuple[str, str], str] = {}  # chat id, digest -> chunk id
    digests: dict[str, dict[str, str]] = {}
    repeats: dict[str, dict[str, str]] = {}
    not_embedded = Counter[str]()
    for row, (chat_id, chunk_id) in enumerate(zip(columns.chat_ids, columns.chunk_ids, strict=True)):
        if chunk_id in refused:
            not_embedded[chat_id] += 1
            continue
        if row not in embedded:
            break
        digest = digest_of_bytes(content[row].data)
        earlier = first.setdefault((chat_id, digest), chunk_id)
        if earlier != chunk_id:
            repeats.setdefault(chat_id, {})[chunk_id] = earlier
            continue
        digests.setdefault(chat_id, {})[chunk_id] = digest
        numbers.setdefault(chat_id, []).append(row)
        said_at.setdefault(chat_id, []).append(columns.started_at[row])
    chats = {chat: (list(digests[chat]), _rows_of(vectors, rows)) for chat, rows in numbers.items()}
    made = Rows(Corpus(chats, repeats, said_at), digests, not_embedded)
    rows = made.total + sum(map(len, repeats.values())) + not_embedded.total()
    if not len(columns) == len(vectors) == rows:
        raise LedgerMismatch(
            f"The {len(vectors)} vectors do not belong to the chunks that were made. Nothing was published; run the night again."
        )
    return made


def _rows_of(vectors: Vectors, rows: list[int]) -> Vectors:
    """These rows; without copying if they are consecutive, as in a chat without repeated messages."""
    if rows[-1] - rows[0] == len(rows) - 1:
        return vectors[rows[0] : rows[-1] + 1]
    return vectors[rows]
