"""The day's own embedder: turns and facts of today get their vectors from it. Opened late, in the background; whoever needs it can do without."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from shared.config.settings import Settings
from shared.embedding.models import Embedder, EmbeddingIdentity
from shared.embedding.open import open_embedder
from shared.errors import HmemError
from shared.vectors.searching import Asker

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

log = structlog.get_logger()

#: Seconds between two tries to open it, or to use it again after a failure.
RETRY_SECONDS = 60.0


def label(identity: EmbeddingIdentity) -> str:
    """The name under which a vector is stored: vectors of two names never meet. Providers of the same weights share it."""
    prefixed = "+prefix" if identity.document_prefix or identity.query_prefix else ""
    return f"{identity.family}/{identity.dimensions}{prefixed}"


def packed(vector: Vectors) -> bytes:
    """A vector as the store keeps it: float32, little endian."""
    return vector.astype("<f4").tobytes()


def unpacked(embedding: bytes) -> Vectors:
    import numpy as np

    return np.frombuffer(embedding, "<f4")


class DayEmbedder:
    """Thread-safe. `open` is slow; every other method answers at once, with None where there is no embedder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedder: Embedder | None = None
        self._asker: Asker | None = None  # a question is asked for more than once
        self._identity: EmbeddingIdentity | None = None
        self._lock = threading.Lock()
        self._not_before = 0.0

    @property
    def wanted(self) -> bool:
        """Whether the settings allow vectors by day at all."""
        return self._settings.embedder != "none" and not self._settings.without_vectors

    @property
    def model(self) -> str | None:
        """Label of the vectors that it makes now; None while it is not open."""
        identity = self._identity
        return label(identity) if identity else None

    @property
    def dimensions(self) -> int:
        """Of its vectors; 0 while it is not open."""
        identity = self._identity
        return identity.dimensions if identity else 0

    @property
    def family(self) -> str | None:
        """Its model family; None while it is not open."""
        identity = self._identity
        return identity.family if identity else None

    def open(self) -> None:
        """Load it, unless it is loaded, not wanted, or failed a moment ago."""
        with self._lock:
            if self._embedder or not self.wanted or time.monotonic() < self._not_before:
                return
            try:
                opened = open_embedder(self._settings)
                if opened is None:
                    return
                try:
                    self._identity = opened.identity  # a server is asked for it: here, where nobody waits
                except BaseException:
                    opened.close()
                    raise
                self._embedder, self._asker = opened, Asker(opened)
            except Exception as error:  # noqa: BLE001 - a library raises anything, and everything works without
                self._failed(error)

    def query(self, text: str) -> Vectors | None:
        """Unit vector of a question, shape (dimensions,)."""
        asker = self._asker
        if asker is None or time.monotonic() < self._not_before:
            return None
        try:
            return asker.vector(text)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            return None

    def documents(self, texts: Sequence[str]) -> list[Vectors | None]:
        """Unit vectors of stored texts, one a text; None where there is none."""
        return self.embedded(texts) or [None] * len(texts)

    def embedded(self, texts: Sequence[str]) -> list[Vectors | None] | None:
        """As `documents`, for those who must know why: None if it cannot be asked now, and None in a text's place if it refuses that text."""
        embedder = self._embedder
        if embedder is None or time.monotonic() < self._not_before:
            return None
        if not texts:
            return []
        try:
            made = embedder.embed_documents(texts)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
            return None
        return [None if row in made.refused else made.vectors[row] for row in range(len(texts))]

    def renew(self) -> None:
        """Keep no question that was asked so far, once `forget_questions` was called."""
        embedder = self._embedder  # `open` may hang, and holds the lock
        self._asker = Asker(embedder) if embedder else None

    def close(self) -> None:
        with self._lock:
            if self._embedder is not None:
                self._embedder.close()
                self._embedder = self._asker = self._identity = None

    def _failed(self, error: Exception) -> None:
        self._not_before = time.monotonic() + RETRY_SECONDS
        reason = str(error) if isinstance(error, HmemError) else repr(error)
        log.warning("the day's embedder is away: what is new has no vectors until it is back", reason=reason)
