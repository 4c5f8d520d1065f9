"""Embed: one vector a chunk, in the order of the chunks. Only text that the cache does not know is embedded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nightly.chunk_file import read_chunks
from nightly.night import Night
from shared.embedding import Embedder, open_embedder

VECTORS = "vectors.npy"
#: Texts between two commits of the cache.
BATCH_TEXTS = 256


def run(night: Night, out: Path) -> dict[str, Any]:
    embedder = open_embedder(night.settings)
    if embedder is None or not night.settings.indexes:
        return {"embedding": None, "embedded": 0, "cached": 0}
    try:
        return _embed(night, out, embedder)
    finally:
        embedder.close()


def _embed(night: Night, out: Path, embedder: Embedder) -> dict[str, Any]:
    import numpy as np

    from nightly.vector_cache import VectorCache

    texts = [indexed for _, indexed in read_chunks(night.output("chunk"))]
    cache = VectorCache(night.settings.hmem_night_dir / "cache.sqlite", embedder.identity)
    try:
        missing = [text for text in dict.fromkeys(texts) if cache.get(text) is None]
        batches = [missing[start : start + BATCH_TEXTS] for start in range(0, len(missing), BATCH_TEXTS)]
        for batch in night.report.track(batches, len(batches), "embed"):
            cache.put(batch, embedder.embed_documents(batch))
            night.crash_point("embed:batch-cached")
        vectors = np.empty((len(texts), embedder.identity.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = cache.get(text)
    finally:
        cache.close()
    np.save(out / VECTORS, vectors)
    return {"embedding": embedder.identity.to_json(), "embedded": len(missing), "cached": len(texts) - len(missing)}
