"""Recall: the one way to what a chat said. `OpenRelease.recall(chat_id, …)` is the only search there is, and it is scoped.

All items of the chat are ranked together (shared/scoring.py), by words and, if the vectors answer in time, by meaning; each hit is read back by
id *and* chat, so that a row of another chat could not come out even if an index had answered with one. What does not answer in time is left
out and named in `degraded`: vectors and keywords → keywords → nothing. Of texts that say the same the best one comes out and names the others.
"""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from shared.backends.base import MemoryBackend
from shared.backends.choose import backend_of
from shared.backends.null import NullBackend
from shared.errors import ReleaseRefused
from shared.keeping import reading
from shared.lexical import Chunk, LexicalIndex
from shared.ranking import WEIGHTS, asks_when, groups, meant_speakers, query_words
from shared.release import FORMAT_VERSION, LEXICAL, Manifest, prove_file, read_manifest, summary_file
from shared.settings import Settings
from shared.time_words import read_times

if TYPE_CHECKING:
    from shared.chat_index import ChatItems
    from shared.scoring import Array, Integers, Question, Scored

#: Items read besides those that are asked for, since what repeats another leaves its place to the next; and the most in a chat of repetitions.
SPARE, MOST_READ = 8, 1000


@dataclass(frozen=True)
class Hit:
    """A recalled chunk and the question it answers.

    `scores` are the parts that add up to `score`, and the raw signals `bm25` and `cosine`. `lexical` and `vector` are bm25 and cosine as shares
    of the chat's best (0 to 1); None where no word of the question is near, or no vector was asked. `also` are the turns that say the same.
    """

    chunk: Chunk
    score: float
    lexical: float | None
    vector: float | None
    question: str | None
    scores: dict[str, float] = field(default_factory=dict)
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recalled:
    """Hits, best first, what was left out and why, and the time taken in milliseconds."""

    hits: list[Hit] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ms: float = 0.0


class OpenRelease:
    """A release opened for reading: keywords and summaries at once, vectors once `open_vectors` has run. Until it is closed it is not pruned.

    No file is read that is not as it was built: without its keywords it has summaries only, and `text_missing` says why.
    """

    def __init__(self, settings: Settings, path: Path) -> None:
        self.path = path
        with ExitStack() as held:
            held.enter_context(reading(path))
            self.manifest: Manifest = read_manifest(path)
            if self.manifest.format_version < FORMAT_VERSION:
                raise ReleaseRefused(
                    f"Release {self.manifest.run} has format {self.manifest.format_version}; this program reads {FORMAT_VERSION}. "
                    "Run the night (hmem-night run): it builds the memory anew from the archive."
                )
            self._lexical, self.text_missing = _open_lexical(path, self.manifest)
            self._backend: MemoryBackend = backend_of(settings, path, self.manifest)
            self._zone = settings.timezone
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
            if self._lexical:
                self._lexical.close()

    def summary(self, chat_id: str) -> str | None:
        """The chat's summary file, if it has one; ReleaseRefused if that is not as it was built."""
        path = summary_file(self.path, chat_id)
        name = path.relative_to(self.path).as_posix()
        if name not in self.manifest.files:
            return None
        prove_file(self.path, self.manifest, name)
        return path.read_text(encoding="utf-8")

    def recall(
        self, chat_id: str, query: str, k: int, deadline_seconds: float | None = None, now: float | None = None
    ) -> Recalled:
        """The `k` chunks of this chat that say most about `query`; `now` (POSIX seconds, else the clock) is what "last week" counts from."""
        started = time.perf_counter()
        degraded: list[str] = []
        hits: list[Hit] = []
        if self._lexical is None:
            return Recalled(hits, [f"no recalled text: {self.text_missing}"])
        try:
            if items := self._lexical.items(chat_id):
                asked_at = time.time() if now is None else now
                hits = self._hits(self._lexical, items, query, k, deadline_seconds, asked_at, degraded)
            elif not self._backend.is_available():
                degraded.append(f"no vector search: {self._backend.why_not}")
        except sqlite3.Error as error:
            degraded.append(f"no recalled text: {error}")
        return Recalled(hits, degraded, (time.perf_counter() - started) * 1000)

    def _hits(
        self,
        lexical: LexicalIndex,
        items: ChatItems,
        query: str,
        k: int,
        deadline: float | None,
        now: float,
        degraded: list[str],
    ) -> list[Hit]:
        from shared.scoring import score

        ends = None if deadline is None else time.perf_counter() + deadline
        asked = self._ask_vectors(items, query)
        question = self._question(lexical, items, query, now, degraded)
        similarities = self._nearest(asked, deadline, ends, degraded)
        scored = score(question, items.features, similarities)
        return self._read(lexical, items, scored, k)

    def _ask_vectors(self, items: ChatItems, query: str) -> Future[Array] | None:
        if not self._backend.is_available():
            return None
        return self._pool.submit(self._backend.similarities, query, items.chat_id, items.chunk_ids)

    def _question(
        self, lexical: LexicalIndex, items: ChatItems, query: str, now: float, degraded: list[str]
    ) -> Question:
        from shared.scoring import Question

        words, times = query_words(query), read_times(query, now, self._zone)
        try:
            postings = lexical.postings(items, query_words(times.rest))
        except sqlite3.Error as error:
            degraded.append(f"no keyword search: {error}")
            postings = []
        speaker = items.of_speakers(meant_speakers(words, items.speakers))
        said_then = items.said_in(times.spans) if times.spans else None
        return Question(postings, speaker, asks_when(words), said_then, times.from_now)

    def _nearest(
        self, asked: Future[Array] | None, deadline: float | None, ends: float | None, degraded: list[str]
    ) -> Array | None:
        if asked is None:
            degraded.append(f"no vector search: {self._backend.why_not}")
            return None
        try:
            return asked.result(timeout=None if ends is None else max(0.0, ends - time.perf_counter()))
        except FutureTimeout:
            degraded.append(f"no vector search: not answered within {deadline:.3f} s")
        except Exception as error:  # noqa: BLE001 - an index or an embedder may raise anything; the answer must go out
            degraded.append(f"no vector search: {error}")
        return None

    def _read(self, lexical: LexicalIndex, items: ChatItems, scored: Scored, k: int) -> list[Hit]:
        """The chunks of the best items, of this chat only, each text once."""
        from shared.scoring import best

        wanted, chunks, once = k + SPARE, list[Chunk](), list[list[int]]()
        while True:
            ranked = best(scored, wanted, only_found=scored.cosine is None)
            chunks = _chunks(lexical, items, ranked)
            once = groups([((chunk.role, chunk.speaker), chunk.text) for chunk in chunks])
            if len(once) >= k or len(ranked) < wanted or wanted >= MOST_READ:
                break
            wanted = min(4 * wanted, MOST_READ)
        once = once[:k]
        questions = lexical.questions_of([chunks[first] for first, *_ in once], items.chat_id)
        scores = dict(zip((items.chunk_ids[at] for at in ranked), scored.explain(ranked), strict=True))
        return [
            _hit(chunks[first], scores[chunks[first].chunk_id], [chunks[at] for at in again], questions)
            for first, *again in once
        ]


def _open_lexical(path: Path, manifest: Manifest) -> tuple[LexicalIndex | None, str | None]:
    """The keywords and texts of a release, once the file is proven to be as it was built; or None and why."""
    try:
        prove_file(path, manifest, LEXICAL)
        return LexicalIndex(path / LEXICAL), None
    except ReleaseRefused as error:
        return None, str(error)
    except (OSError, sqlite3.Error) as error:
        return (
            None,
            f"{path / LEXICAL} cannot be opened: {error}. Go back to another release (hmem release rollback), or run the night again.",
        )


def _chunks(lexical: LexicalIndex, items: ChatItems, ranked: Integers) -> list[Chunk]:
    """In the order of the ranking; a row that is not this chat's own is left out."""
    ids = [items.chunk_ids[at] for at in ranked]
    found = lexical.chunks(ids, items.chat_id)
    return [found[name] for name in ids if name in found and found[name].chat_id == items.chat_id]


def _hit(chunk: Chunk, scores: dict[str, float], again: list[Chunk], questions: dict[str, str]) -> Hit:
    also = dict.fromkeys(turn for other in again for turn in other.turn_ids if turn not in chunk.turn_ids)
    return Hit(
        chunk,
        scores.pop("total"),
        scores["lexical"] / WEIGHTS.lexical if scores["bm25"] else None,
        scores["vector"] / WEIGHTS.vector if "cosine" in scores else None,
        questions.get(chunk.exchange) if chunk.role == "asst" else None,
        scores,
        tuple(also),
    )
