"""Recall: the one way to what a chat said. `OpenRelease.recall(chat_id, …)` is the only search there is, and it is scoped.

Keyword and vector candidates are fused; each found chunk is read back by id *and* chat, so that a row of another chat could not come
out even if an index had answered with one. What does not answer in time is left out and named in `degraded`:
vectors and keywords → keywords → nothing.
"""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from shared.backends.base import MemoryBackend
from shared.backends.null import NullBackend
from shared.errors import ReleaseRefused
from shared.keeping import reading
from shared.lexical import Chunk, LexicalIndex
from shared.ranking import Fused, Match, fuse
from shared.release import LEXICAL, Manifest, read_manifest, summary_file
from shared.settings import Settings

#: Candidates of each signal before fusion.
CANDIDATES = 50


@dataclass(frozen=True)
class Hit:
    """A recalled chunk with its scores (0 to 1; None where that signal did not find it) and the question it answers."""

    chunk: Chunk
    score: float
    lexical: float | None
    vector: float | None
    question: str | None


@dataclass(frozen=True)
class Recalled:
    """Hits, best first, what was left out and why, and the time taken in milliseconds."""

    hits: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ms: float = 0.0


class OpenRelease:
    """A release opened for reading: keywords and summaries at once, vectors once `open_vectors` has run. Until it is closed it is not pruned."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self.path = path
        with ExitStack() as held:
            held.enter_context(reading(path))
            self.manifest: Manifest = read_manifest(path)
            try:
                if not (path / LEXICAL).is_file():  # a pipe would keep us waiting
                    raise sqlite3.OperationalError("it is missing, or no file")
                self._lexical = LexicalIndex(path / LEXICAL)
            except sqlite3.Error as error:
                raise ReleaseRefused(
                    f"{path / LEXICAL} cannot be opened: {error}. Go back to another (hmem release rollback), or run the night again."
                ) from error
            self._backend = _backend(settings, path, self.manifest)
            self._pool = ThreadPoolExecutor(settings.max_concurrent_tasks, thread_name_prefix="vectors")
            self._held = held.pop_all()

    @property
    def run(self) -> int:
        return self.manifest.run

    @property
    def vectors_missing(self) -> str | None:
        """Why there is no vector search at present, or None."""
        return None if self._backend.is_available() else self._backend.why_not

    @property
    def has_vectors(self) -> bool:
        """Whether there is anything for `open_vectors` to open."""
        return not isinstance(self._backend, NullBackend)

    def open_vectors(self) -> None:
        """Slow; runs in the background by day."""
        self._backend.open()

    def without_vectors(self, why: str) -> None:
        """Never open them: `why` is what every lookup says from now on."""
        refused, self._backend = self._backend, NullBackend(why)
        refused.close()

    def close(self) -> None:
        with self._held:
            self._pool.shutdown(wait=True)
            self._backend.close()
            self._lexical.close()

    def summary(self, chat_id: str) -> str | None:
        """The chat's summary file, or None; a damaged one costs the summary, not the rest."""
        try:
            return summary_file(self.path, chat_id).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def recall(self, chat_id: str, query: str, k: int, deadline_seconds: float | None = None) -> Recalled:
        """The `k` chunks of this chat that say most about `query`."""
        started = time.perf_counter()
        degraded: list[str] = []
        vectors = (
            self._pool.submit(self._backend.search, query, chat_id, CANDIDATES)
            if self._backend.is_available()
            else None
        )
        words = self._words(query, chat_id, degraded)
        nearest = self._nearest(vectors, deadline_seconds, degraded)
        hits = self._read(fuse(words, nearest)[:k], chat_id, degraded)
        return Recalled(hits, degraded, (time.perf_counter() - started) * 1000)

    def _words(self, query: str, chat_id: str, degraded: list[str]) -> list[Match]:
        try:
            return self._lexical.search(query, chat_id, CANDIDATES)
        except sqlite3.Error as error:
            degraded.append(f"no keyword search: {error}")
            return []

    def _nearest(self, vectors: Future[list[Match]] | None, deadline: float | None, degraded: list[str]) -> list[Match]:
        if vectors is None:
            degraded.append(f"no vector search: {self._backend.why_not}")
            return []
        try:
            return vectors.result(timeout=deadline)
        except FutureTimeout:
            degraded.append(f"no vector search: not answered within {deadline:.3f} s")
        except Exception as error:  # noqa: BLE001 - an index or an embedder may raise anything; the answer must go out
            degraded.append(f"no vector search: {error}")
        return []

    def _read(self, ranked: list[Fused], chat_id: str, degraded: list[str]) -> list[Hit]:
        try:
            chunks = self._lexical.chunks([hit.chunk_id for hit in ranked], chat_id)
            return [
                Hit(chunk, hit.score, hit.lexical, hit.vector, self._lexical.question_of(chunk))
                for hit in ranked
                if (chunk := chunks.get(hit.chunk_id)) is not None and chunk.chat_id == chat_id
            ]
        except sqlite3.Error as error:
            degraded.append(f"no recalled text: {error}")
            return []


def _backend(settings: Settings, path: Path, manifest: Manifest) -> MemoryBackend:
    if settings.memory_backend == "none":
        return NullBackend("MEMORY_BACKEND=none")
    if "chroma" not in manifest.indexes:
        return NullBackend(f"release {manifest.run} was built without a vector index")
    from shared.backends.chroma import ChromaBackend

    return ChromaBackend(settings, path, manifest.embedding, settings.hmem_state_dir / "views")
