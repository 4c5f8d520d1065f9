"""Build: `lexical.sqlite` and the vector index, in a new directory, checked after writing. A crash discards all of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightly.chunk_file import read_chunks
from nightly.night import Night
from shared import lexical
from shared.errors import LedgerMismatch
from shared.lexical import LexicalIndex
from shared.release import CHROMA, LEXICAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.embedding import Vectors


def run(night: Night, out: Path) -> dict[str, Any]:
    chunks = night.output("chunk")
    lexical.build(out / LEXICAL, read_chunks(chunks))
    _check_counts(out / LEXICAL, night.result("chunk")["chunks_per_chat"])
    night.crash_point("build:lexical-built")
    indexes: list[str] = []
    if night.result("embed")["embedding"] and "chroma" in night.settings.indexes:
        from shared.backends import chroma

        chroma.build(out / CHROMA, _vectors_per_chat(night))
        indexes.append("chroma")
    return {"indexes": indexes}


def _check_counts(path: Path, expected: dict[str, int]) -> None:
    index = LexicalIndex(path)
    try:
        found = index.chunks_per_chat()
    finally:
        index.close()
    if found != {chat: count for chat, count in expected.items() if count}:
        raise LedgerMismatch(
            "The index does not hold the chunks that were made. Nothing was published; run the night again."
        )


def _vectors_per_chat(night: Night) -> dict[str, tuple[Sequence[str], Vectors]]:
    import numpy as np

    vectors = np.load(night.output("embed") / "vectors.npy")
    rows: dict[str, tuple[list[str], list[int]]] = {}
    for row, (chunk, _) in enumerate(read_chunks(night.output("chunk"))):
        ids, numbers = rows.setdefault(chunk.chat_id, ([], []))
        ids.append(chunk.chunk_id)
        numbers.append(row)
    return {chat: (ids, vectors[numbers]) for chat, (ids, numbers) in rows.items()}
