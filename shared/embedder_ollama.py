"""Embeddings by an Ollama server, through its own client.

Ollama adds no prefixes: they are put on here. Answers are checked (count, dimensions, finite numbers) before anything is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import httpx
import numpy as np
import ollama

from shared.embedding import EmbeddingIdentity, KnownModel
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.embedding import Vectors

Answer = TypeVar("Answer")

#: Texts of one request: enough to keep a GPU busy, few enough for one request's time limit.
BATCH_TEXTS = 32


class OllamaEmbedder:
    def __init__(self, model: KnownModel, name: str, url: str, timeout_seconds: float) -> None:
        self._model, self._name, self._url = model, name, url
        self._client = ollama.Client(host=url, timeout=timeout_seconds)

    @cached_property
    def identity(self) -> EmbeddingIdentity:
        model = self._model
        return EmbeddingIdentity(
            model.family, model.dimensions, model.document_prefix, model.query_prefix, "ollama", self._digest()
        )

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        prefixed = [self._model.document_prefix + text for text in texts]
        batches = [self._embed(prefixed[i : i + BATCH_TEXTS]) for i in range(0, len(prefixed), BATCH_TEXTS)]
        return np.concatenate(batches) if batches else np.empty((0, self._model.dimensions), dtype=np.float32)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._embed([self._model.query_prefix + text])[0]
        return vector

    def close(self) -> None:
        self._client.close()  # type: ignore[no-untyped-call]

    def _digest(self) -> str:
        wanted = self._name if ":" in self._name else f"{self._name}:latest"
        for model in self._call(self._client.list).models:
            if model.model == wanted:
                return f"sha256:{(model.digest or '').removeprefix('sha256:')}"
        raise EmbeddingError(f"Ollama at {self._url} has no model {self._name}. Run: ollama pull {self._name}")

    def _embed(self, texts: list[str]) -> Vectors:
        answer = self._call(self._client.embed, model=self._name, input=texts, truncate=True)
        vectors = np.asarray(answer.embeddings, dtype=np.float32)
        expected = (len(texts), self._model.dimensions)
        if vectors.shape != expected:
            raise EmbeddingError(
                f"Ollama's model {self._name} answered vectors of shape {vectors.shape}, not {expected}. "
                "Check that EMBED_MODEL is the model meant."
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(vectors).all() or not (lengths > 0).all():
            raise EmbeddingError(
                f"Ollama's model {self._name} answered numbers that are no vector (NaN or zero). Restart Ollama."
            )
        unit: Vectors = vectors / lengths
        return unit

    def _call(self, function: Callable[..., Answer], **arguments: object) -> Answer:
        try:
            return function(**arguments)
        except ollama.ResponseError as error:
            hint = f" Run: ollama pull {self._name}" if error.status_code == 404 else ""
            raise EmbeddingError(f"Ollama at {self._url} refused: {error.error}.{hint}") from error
        except (httpx.HTTPError, ConnectionError) as error:
            raise EmbeddingError(
                f"Ollama at {self._url} does not answer ({error}). Start it, or set OLLAMA_URL."
            ) from error
