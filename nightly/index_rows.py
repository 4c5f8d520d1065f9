"""What the vector index of a night holds: for each chat, its distinct vectors, each under the id of the first chunk that has it."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightly.chunk_file import read_chunks
from nightly.night import Night
from shared.errors import LedgerMismatch

if TYPE_CHECKING:
    from shared.embedding import Vectors


@dataclass(frozen=True)
class Rows:
    """The rows of the index, and by chat the chunks that have none: their vector equals an earlier one's, or the embedder refused them.

    Equal vectors are the same words of the same speaker on the same day. They are indexed once since HNSW links equal vectors to each other
    only: 288 equal ones a day for ten days cut off a tenth of the chat's other vectors from every search. (And an exact search would answer
    with nothing else.)
    """

    chats: dict[str, tuple[list[str], Vectors]]
    digests: dict[str, dict[str, str]]  # chat id -> chunk id -> digest of its vector
    repeats: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # chat id -> chunk id -> the first chunk with that vector
    not_embedded: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return sum(len(ids) for ids in self.digests.values())

    def repeated(self, chat_id: str) -> int:
        return len(self.repeats.get(chat_id, ()))


def read_rows(night: Night) -> Rows:
    """From the chunks and their vectors; LedgerMismatch unless chunks = vectors + not embedded."""
    import numpy as np

    vectors, refused = np.load(night.output("embed") / "vectors.npy"), night.result("embed").get("refused", {})
    numbers: dict[str, list[int]] = {}
    first: dict[tuple[str, str], str] = {}  # chat id, digest -> chunk id
    digests: dict[str, dict[str, str]] = {}
    repeats: dict[str, dict[str, str]] = {}
    not_embedded = Counter[str]()
    read = 0
    for row, (chunk, _) in enumerate(read_chunks(night.output("chunk"))):
        read += 1
        if chunk.chunk_id in refused:
            not_embedded[chunk.chat_id] += 1
            continue
        if row >= len(vectors) or not vectors[row].any():
            break
        digest = hashlib.sha256(vectors[row].tobytes()).hexdigest()[:32]
        earlier = first.setdefault((chunk.chat_id, digest), chunk.chunk_id)
        if earlier != chunk.chunk_id:
            repeats.setdefault(chunk.chat_id, {})[chunk.chunk_id] = earlier
            continue
        digests.setdefault(chunk.chat_id, {})[chunk.chunk_id] = digest
        numbers.setdefault(chunk.chat_id, []).append(row)
    rows = Rows({c: (list(digests[c]), vectors[n]) for c, n in numbers.items()}, digests, repeats, not_embedded)
    if read != len(vectors) or len(rows) + sum(map(len, repeats.values())) + not_embedded.total() != read:
        raise LedgerMismatch(
            f"The {len(vectors)} vectors do not belong to the chunks that were made. Nothing was published; run the night again."
        )
    return rows
