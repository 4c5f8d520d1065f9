"""The day's embedder: it makes the vectors of today's turns and memories. Opened late, in the background; all callers work without it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.config.settings import Settings
from shared.embedding.known_models import compares_as_questions
from shared.embedding.models import Embedder, EmbeddingIdentity
from shared.embedding.open import open_embedder
from shared.errors import HmemError
from shared.text.logs import Logger
from shared.vectors.searching import Asker

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

log = Logger()

#: Time before another attempt to open it, or to use it after a failure. Seconds.
RETRY_SECONDS = 60.0


def label(identity: EmbeddingIdentity) -> str:
    """The label stored with a vector: vectors with different labels are never compared. Providers of the same weights share it, if their prefixes
    are the same, too: those are in it as the beginning of a hash."""
    prefixes = f"{identity.document_prefix}\0{identity.query_prefix}"
    prefixed = f"+{hashlib.sha256(prefixes.encode()).hexdigest()[:8]}" if prefixes != "\0" else ""
    return f"{identity.family}/{identity.dimensions}{prefixed}"


def packed(vector: Vectors) -> bytes:
    """A vector in the store's format: float32, little endian."""
    return vector.astype("<f4").tobytes()


def unpacked(embedding: bytes) -> Vectors:
    import numpy as np

    return np.frombuffer(embedding, "<f4")


class DayEmbedder:
    """Thread-safe. `open` is slow; every other method returns None immediately if there is no embedder."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedder: Embedder | None = None
        self._asker: Asker | None = None  # caches questions, which are embedded more than once
        self._identity: EmbeddingIdentity | None = None
        self._lock = threading.Lock()
        self._not_before = 0.0

    @property
    def wanted(self) -> bool:
        """Whether the settings allow vectors by day at all."""
        return self._settings.embedder != "none" and not self._settings.without_vectors

    @property
    def model(self) -> str | None:
        """The label of its vectors; None while it is not open."""
        identity = self._identity  # once: another thread may open or close it
        return label(identity) if identity else None

    @property
    def dimensions(self) -> int:
        """The dimensions of its vectors; 0 while it is not open."""
        identity = self._identity
        return identity.dimensions if identity else 0

    @property
    def family(self) -> str | None:
        """Its model family; None while it is not open."""
        identity = self._identity
        return identity.family if identity else None

    def open(self) -> None:
        """Load it, unless it is loaded, not wanted, or failed recently."""
        with self._lock:
            if self._embedder or not self.wanted or time.monotonic() < self._not_before:
                return
            try:
                opened = open_embedder(self._settings)
                if opened is None:
                    return
                try:
                    self._identity = opened.identity  # may ask a server: here, where no caller waits
                except BaseException:
                    opened.close()
                    raise
                self._embedder, self._asker = opened, Asker(opened)
            except Exception as error:  # noqa: BLE001 - libraries raise anything, and everything works without it
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

    def statements(self, texts: Sequence[str]) -> list[Vectors | None]:
        """Unit vectors of memories, one for each; None for a missing one. Where the model's card says so, as questions are: a memory and a
        statement are of one kind, and none answers the other."""
        if compares_as_questions(self.family):
            return [self.query(text) for text in texts]
        return self.embedded(texts) or [None] * len(texts)

    def embedded(self, texts: Sequence[str]) -> list[Vectors | None] | None:
        """Unit vectors of turns, one for each: None if the embedder is unavailable now, and a None in the list if it refuses that text."""
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
        """Drop the cached questions. Call it after `forget_questions`."""
        embedder = self._embedder  # without the lock, because `open` may hang while it has it
        self._asker = Asker(embedder) if embedder else None

    def close(self) -> None:
        with self._lock:
            if self._embedder is not None:
                self._embedder.close()
                self._embedder = self._asker = self._identity = None

    def _failed(self, error: Exception) -> None:
        self._not_before = time.monotonic() + RETRY_SECONDS
        reason = str(error) if isinstance(error, HmemError) else repr(error)
        log.warning("the day's embedder is unavailable: new turns have no vectors until it works again", reason=reason)
