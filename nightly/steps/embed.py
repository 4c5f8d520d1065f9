"""Embed: one vector a chunk, and one a note, in their order. Only text that the cache does not know is embedded.

First the embedder is verified to be the expected model; export and archive are done by then, so no turn is lost if it is wrong. A text
that it refuses has no vector (its row is zeros, `build` leaves it out): it is found by keyword, reported in the result with the reason,
and tried again at the next build.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nightly.index.chunk_file import read_chunks
from nightly.night.folder import CACHE, Night
from shared.embedding.models import Embedder
from shared.embedding.open import open_embedder
from shared.errors import EmbeddingError
from shared.system.faults import crash_point

if TYPE_CHECKING:
    from nightly.index.vector_cache import VectorCache
    from shared.embedding.models import Vectors

VECTORS, NOTE_VECTORS = "vectors.npy", "note_vectors.npy"
#: Texts between two commits of the cache.
BATCH_TEXTS = 256
#: Above this share of refused texts (of at least FEWEST_TEXTS) the model is at fault, not the texts.
REFUSED_SHARE, FEWEST_TEXTS = 0.1, 20


def run(night: Night, out: Path) -> dict[str, Any]:
    embedder = open_embedder(night.settings) if night.settings.indexes else None
    if embedder is None:
        return {"embedding": None, "embedded": 0, "cached": 0, "not_embedded": 0, "refused": {}}
    try:
        return _embed(night, out, embedder)
    finally:
        embedder.close()


def _embed(night: Night, out: Path, embedder: Embedder) -> dict[str, Any]:
    from shared.embedding.probes import prove

    identity = replace(embedder.identity, probes=prove(embedder))
    of_chunks = _embed_folder(night, embedder, night.output("chunk"), out / VECTORS)
    of_notes = _embed_folder(night, embedder, night.output("note"), out / NOTE_VECTORS, kind="notes")
    return {
        "embedding": identity.to_json(),
        **of_chunks,
        "note_vectors": of_notes["vectors"],
        "notes_refused": of_notes["refused"],
    }


def _embed_folder(
    night: Night, embedder: Embedder, folder: Path, out: Path, kind: Literal["chunks", "notes"] = "chunks"
) -> dict[str, Any]:
    """Write the vectors of the chunks in a step's folder; their counts."""
    import numpy as np

    from nightly.index.vector_cache import VectorCache

    chunks = [(chunk.chunk_id, text) for chunk, text in read_chunks(folder)]
    texts = len({text for _, text in chunks})
    cache = VectorCache(night.settings.hmem_night_dir / CACHE, embedder.identity, kind)
    try:
        vectors = np.zeros((len(chunks), embedder.identity.dimensions), dtype=np.float32)
        missing = _known(cache, [text for _, text in chunks], vectors)
        refused = _fill(night, embedder, cache, list(missing), texts)
        for text, rows in missing.items():
            if (vector := cache.get(text)) is not None:
                vectors[rows] = vector
        np.save(out, vectors)
    finally:
        cache.close()
    reasons = {chunk_id: refused[text] for chunk_id, text in chunks if text in refused}
    return {
        "embedded": len(missing) - len(refused),
        "cached": texts - len(missing),
        "vectors": len(chunks) - len(reasons),
        "not_embedded": len(reasons),
        "refused": reasons,
    }


def _fill(night: Night, embedder: Embedder, cache: VectorCache, missing: list[str], total: int) -> dict[str, str]:
    """Embed what is missing into the cache; text → reason of what was refused."""
    refused: dict[str, str] = {}
    batches = [missing[start : start + BATCH_TEXTS] for start in range(0, len(missing), BATCH_TEXTS)]
    for batch in night.report.track(batches, len(batches), "embed"):
        answer = embedder.embed_documents(batch)
        good = [row for row in range(len(batch)) if row not in answer.refused]
        cache.put([batch[row] for row in good], answer.vectors[good])
        refused |= {batch[row]: reason for row, reason in answer.refused.items()}
        crash_point("embed:batch-cached")
        if total >= FEWEST_TEXTS and len(refused) > REFUSED_SHARE * total:
            reason, _ = Counter(refused.values()).most_common(1)[0]
            raise EmbeddingError(
                f"The model refused {len(refused)} of {total} texts ({reason}), which is too many. "
                "Choose a model that accepts them (EMBED_MODEL=bge-m3 accepts long texts), or EMBEDDER=local."
            )
    return refused


def _known(cache: VectorCache, texts: list[str], into: Vectors) -> dict[str, list[int]]:
    """Fill in the vectors that the cache has; returns the other texts, each with its rows, which stay zeros."""
    missing: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        vector = None if text in missing else cache.get(text)
        if vector is None:
            missing.setdefault(text, []).append(row)
        else:
            into[row] = vector
    return missing
