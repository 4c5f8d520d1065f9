"""Embeddings by an Ollama server. One text that it cannot embed costs that text its vector, never the night.

Ollama fails a whole batch for one bad text (too long for the model: 400 or, in some versions, a dropped connection). So a batch that
fails, after its retries, is halved until the text is found. A text that fails alone is refused with the reason, if a plain control text
still passes and the server still answers: otherwise it is the model or the server, and that is an EmbeddingError.

Ollama adds no prefixes: they are put on here. Answers are checked (count, dimensions, finite numbers) before anything is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shared.embedding.known_models import KnownModel
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.embedding.ollama.server import ATTEMPTS, HOPELESS, OllamaError, OllamaServer
from shared.embedding.open import open_ollama
from shared.errors import EmbeddingError

if TYPE_CHECKING:
    from shared.config.settings import Settings
    from shared.embedding.models import Vectors

#: Texts of one request: enough to keep a GPU busy, few enough for one request's time limit.
BATCH_TEXTS = 32
#: What any model can embed: if it fails too, the failing text is not to blame.
CONTROL_TEXT = "This is a plain sentence."


class WrongShape(ValueError):
    """Vectors of other dimensions than the model's: it is another model."""


class OllamaEmbedder:
    #: One request; more are sent one after the other.
    texts_at_once = BATCH_TEXTS

    def __init__(self, model: KnownModel, name: str, server: OllamaServer) -> None:
        self._model, self._name, self._server = model, name, server

    @cached_property
    def identity(self) -> EmbeddingIdentity:
        """OllamaError if the server does not answer or has no such model."""
        return self._model.identity("ollama", self._server.digest(self._name))

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        prefixed = [_plain(self._model.document_prefix + text) for text in texts]
        done = DocumentVectors(np.zeros((len(texts), self._model.dimensions), dtype=np.float32))
        for start in range(0, len(prefixed), BATCH_TEXTS):
            self._fill(prefixed, range(start, min(start + BATCH_TEXTS, len(prefixed))), done)
        return done

    def embed_query(self, text: str) -> Vectors:
        """Requested once, without retries: by day a user waits, and keyword search still works."""
        vector: Vectors = self._embed([_plain(self._model.query_prefix + text)], attempts=1)[0]
        return vector

    def close(self) -> None:
        self._server.close()

    def _fill(self, texts: list[str], rows: range, done: DocumentVectors, *, halved: bool = False) -> None:
        """Vectors of these rows. Halves are not retried before they are halved again: the search would take minutes a text."""
        attempts = 1 if halved and len(rows) > 1 else ATTEMPTS
        try:
            done.vectors[rows.start : rows.stop] = self._embed(texts[rows.start : rows.stop], attempts)
        except OllamaError as error:
            self._stop_unless_a_text_may_be_to_blame(error)
            if len(rows) > 1:
                middle = rows.start + len(rows) // 2
                self._fill(texts, range(rows.start, middle), done, halved=True)
                return self._fill(texts, range(middle, rows.stop), done, halved=True)
            self._stop_unless_the_control_text_passes(error)
            done.refused[rows.start] = error.reason

    def _stop_unless_a_text_may_be_to_blame(self, error: OllamaError) -> None:
        if error.status in HOPELESS:
            raise error
        if error.passing:
            self._server.version()  # it answers, or this raises that it does not

    def _stop_unless_the_control_text_passes(self, error: OllamaError) -> None:
        if isinstance(error.__cause__, WrongShape):
            raise error
        try:
            self._embed([self._model.document_prefix + CONTROL_TEXT], ATTEMPTS)
        except OllamaError as failed:
            raise EmbeddingError(
                f"Ollama's model {self._name} cannot embed even a plain sentence: {failed.reason}. Restart Ollama, or pull the model again."
            ) from failed

    def _embed(self, texts: list[str], attempts: int) -> Vectors:
        def read(answer: Any) -> Vectors:
            return self._checked(answer, len(texts))

        return self._server.embed(self._name, texts, attempts, read)

    def _checked(self, answer: Sequence[Sequence[float]], count: int) -> Vectors:
        """Unit vectors of an answer, or ValueError."""
        widths = {len(row) for row in answer}
        if widths - {self._model.dimensions}:
            raise WrongShape(
                f"{self._name} returned vectors of shape {len(answer)} x {sorted(widths)}, not {self._model.dimensions}"
            )
        if len(answer) != count:
            raise ValueError(f"{len(answer)} vectors for {count} texts")
        vectors = np.asarray(answer, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or not (lengths > 0).all():
            raise ValueError("invalid numbers (NaN or a zero vector)")
        unit: Vectors = vectors / lengths
        return unit


def _plain(text: str) -> str:
    """Lone surrogates cannot be sent; the shipped model replaces them the same way."""
    return text.encode("utf-8", "replace").decode("utf-8")


def open_embedder(model: KnownModel, settings: Settings) -> OllamaEmbedder:
    return OllamaEmbedder(model, settings.model_name, open_ollama(settings))
