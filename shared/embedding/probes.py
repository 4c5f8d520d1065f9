"""Whether an embedder is the model that its name says: a few fixed texts are embedded and compared.

A name or a digest only says which file is intended; vectors show which model answers. By night the embedder is compared with the shipped
model if it should have the same weights, and the vectors of some probes go into the manifest; by day they are compared with the day's.
Measured: int8 against float32 of the same weights 0.971 to 0.995; another model, or a missing prefix, is far below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shared.config.kinds import embedders
from shared.embedding.known_models import MINILM
from shared.embedding.models import Embedder, EmbeddingIdentity
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

PROBE_TEXTS = (
    "Found 4 open ports: 22, 80, 443, 8080",
    "I adopted a puppy named Coco in May",
    "which host had four open ports last week?",
    "The boiler stopped, its display shows F28.",
    "Leila's dentist is moved to Monday the 27th at 09:15.",
)
#: Probes whose vectors a manifest carries, and their decimals: 10 to 25 KB.
RECORDED_PROBES, RECORDED_DECIMALS = 3, 4
LEAST_COSINE = 0.95


def prove(embedder: Embedder) -> tuple[tuple[float, ...], ...]:
    """By night: the probes for the manifest, or EmbeddingError if the embedder is unavailable or another model than expected."""
    vectors = probe_vectors(embedder, len(PROBE_TEXTS))
    identity = embedder.identity
    if identity.family == MINILM.family and identity.provider != "local":
        _compare_with_the_shipped_model(vectors, identity)
    return tuple(tuple(round(float(x), RECORDED_DECIMALS) for x in vector) for vector in vectors[:RECORDED_PROBES])


def difference(embedder: Embedder, indexed_with: EmbeddingIdentity) -> str | None:
    """By day: why a release's vectors may not be compared with this embedder's, or None if they may or there are no probes."""
    probes = np.asarray(indexed_with.probes[: len(PROBE_TEXTS)], dtype=np.float32)
    if not len(probes):
        return None
    ours = probe_vectors(embedder, len(probes))
    cosine = least_cosine(ours, probes)
    if cosine >= LEAST_COSINE:
        return None
    identity = embedder.identity
    return (
        f"the model under the name {identity.family} at {identity.provider} answers differently from the one that the release was embedded "
        f"with (cosine {cosine:.2f}, at least {LEAST_COSINE} is needed); get the model again on both hosts "
        f"({_how_again(identity)}), then run the night"
    )


def _how_again(identity: EmbeddingIdentity) -> str:
    known = embedders()
    return known.get(identity.provider, known["local"]).again


def probe_vectors(embedder: Embedder, count: int) -> Vectors:
    """Vectors of the first `count` probes, shape (count, dimensions); EmbeddingError if the embedder refuses one."""
    answer = embedder.embed_documents(PROBE_TEXTS[:count])
    if answer.refused:
        reason = next(iter(answer.refused.values()))
        raise EmbeddingError(
            f"The embedder refuses a plain sentence: {reason}. Check EMBED_MODEL; {_how_again(embedder.identity)}."
        )
    return answer.vectors


def least_cosine(ours: Vectors, theirs: Vectors) -> float:
    """The probe that agrees least; -1 where the shapes cannot be compared."""
    if ours.shape != theirs.shape:
        return -1.0
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return float(np.min(np.sum(ours * theirs, axis=1) / np.maximum(lengths, 1e-9)))


def _compare_with_the_shipped_model(vectors: Vectors, identity: EmbeddingIdentity) -> None:
    try:
        from shared.embedding.local.embedder import LocalEmbedder
    except ImportError:  # a night host without the extra `local`: nothing to compare with
        return
    cosine = least_cosine(vectors, probe_vectors(LocalEmbedder(MINILM), len(PROBE_TEXTS)))
    if cosine < LEAST_COSINE:
        raise EmbeddingError(
            f"What {identity.provider} calls {MINILM.ollama} answers differently from {identity.family} as shipped "
            f"(cosine {cosine:.2f}, at least {LEAST_COSINE} is needed). Set another EMBED_MODEL, or {_how_again(identity)}."
        )
