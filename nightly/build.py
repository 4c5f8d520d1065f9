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

UNACCOUNTED = "The index does not hold the chunks that were made. Nothing was published; run the night again."


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
        raise LedgerMismatch(UNACCOUNTED)


def _vectors_per_chat(night: Night) -> dict[str, tuple[Sequence[str], Vectors]]:
    """Every chunk's vector but those that the embedder refused: chunks = vectors + not embedded, or the night stops."""
    import numpy as np

    vectors, refused = np.load(night.output("embed") / "vectors.npy"), night.result("embed").get("refused", {})
    rows: dict[str, tuple[list[str], list[int]]] = {}
    for row, (chunk, _) in enumerate(read_chunks(night.output("chunk"))):
        if chunk.chunk_id in refused:
            continue
        ids, numbers = rows.setdefault(chunk.chat_id, ([], []))
        ids.append(chunk.chunk_id)
        numbers.append(row)
    found = sum(len(ids) for ids, _ in rows.values())
    if found + len(refused) != len(vectors) or not np.linalg.norm(vectors[_all(rows)], axis=1).all():
        raise LedgerMismatch(UNACCOUNTED)
    return {chat: (ids, vectors[numbers]) for chat, (ids, numbers) in rows.items()}


def _all(rows: dict[str, tuple[list[str], list[int]]]) -> list[int]:
    return [number for _, numbers in rows.values() for number in numbers]
