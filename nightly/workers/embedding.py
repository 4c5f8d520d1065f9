"""Embedding as a task (nightly/workers/task.py). A worker of a cluster has an embedder of its own, from its own settings, and says which one.

task      the texts (JSON)
answer    {identity, refused: row -> reason} (JSON), vectors of the probe texts, vectors of the texts (float32; both empty of those of this process)
"""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from nightly.workers.task import Frames, ResultRefused, TaskKind
from shared.config.settings import load_settings
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.embedding.open import open_embedder
from shared.embedding.probes import LEAST_COSINE, PROBE_TEXTS, least_cosine, probe_vectors
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.embedding.models import Embedder, Vectors

#: How far the length of a vector may be from 1.
LENGTH_TOLERANCE = 0.01


def embedding(embedder: Embedder) -> TaskKind:
    """`embedder`: this night's own. Other processes of this host would share its cores, or its server, so they do not embed."""
    own = _Own(embedder)
    return TaskKind("embed", embed_on_worker, partial(_embed, embedder, ()), own.prove, for_processes=False)


def texts_task(texts: Sequence[str]) -> Frames:
    return (orjson.dumps(texts),)


def vectors_of(texts: Sequence[str], answer: Frames, embedder: Embedder) -> DocumentVectors:
    """What was answered. A text that a worker refused is tried here once more: its word alone does not leave a text without a vector."""
    vectors = np.frombuffer(answer[2], "<f4").reshape(-1, embedder.identity.dimensions)
    refused = {int(row): reason for row, reason in orjson.loads(answer[0])["refused"].items()}
    if not refused or not answer[1]:
        return DocumentVectors(vectors, refused)
    rows = sorted(refused)
    again = embedder.embed_documents([texts[row] for row in rows])
    vectors = vectors.copy()
    vectors[rows] = again.vectors
    return DocumentVectors(vectors, {rows[row]: reason for row, reason in again.refused.items()})


def embed_on_worker(task: Frames) -> Frames:
    """The task itself, with the embedder that the settings of this worker name."""
    return _embed(_worker_embedder(), PROBE_TEXTS, task)


@lru_cache(1)
def _worker_embedder() -> Embedder:
    embedder = open_embedder(load_settings())
    if embedder is None:
        raise EmbeddingError("EMBEDDER=none on this worker. Set EMBEDDER and EMBED_MODEL as on the night host.")
    return embedder


def _embed(embedder: Embedder, probes: Sequence[str], task: Frames) -> Frames:
    answer = embedder.embed_documents([*probes, *orjson.loads(task[0])])
    count = len(probes)
    if any(row < count for row in answer.refused):
        raise EmbeddingError("The embedder refuses a plain sentence. Check EMBED_MODEL.")
    about = {
        "identity": embedder.identity.to_json(),
        "refused": {str(row - count): reason for row, reason in answer.refused.items()},
    }
    return orjson.dumps(about), _bytes(answer.vectors[:count]), _bytes(answer.vectors[count:])


def _bytes(vectors: Vectors) -> bytes:
    return np.ascontiguousarray(vectors, "<f4").tobytes()


class _Own:
    """What a worker's answers are held against: this night's embedder."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @cached_property
    def _probes(self) -> Vectors:
        return probe_vectors(self._embedder, len(PROBE_TEXTS))

    def prove(self, task: Frames, answer: Frames) -> None:
        """ResultRefused unless it is of the same model, and a vector of unit length for each text that is not refused."""
        try:
            about, probes, content = answer
            record: dict[str, Any] = orjson.loads(about)
            identity, rows = EmbeddingIdentity.from_json(record["identity"]), {int(row) for row in record["refused"]}
            count, own = len(orjson.loads(task[0])), self._embedder.identity
            if identity != own:
                raise ResultRefused(f"it embeds with {identity.family} ({identity.provider} {identity.digest[:20]})")
            vectors = np.frombuffer(content, "<f4").reshape(count, own.dimensions)
            told = np.frombuffer(probes, "<f4").reshape(len(PROBE_TEXTS), own.dimensions)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResultRefused("its vectors have another number or size than its texts") from error
        good = np.ones(count, bool)
        good[sorted(row for row in rows if 0 <= row < count)] = False
        lengths = np.linalg.norm(vectors[good], axis=1)
        if not np.all(np.abs(lengths - 1) < LENGTH_TOLERANCE):  # NaN neither
            raise ResultRefused("its vectors are not of unit length")
        if not least_cosine(self._probes, told) >= LEAST_COSINE:
            raise ResultRefused(f"its model answers otherwise than {own.family} at this host")
