"""Another embedding model on the owner's own turns, beside the one in use, before he switches. Nothing is written: no release, setting or cache.

A sample of the current release is embedded with both: the newest turns of the chats that the night's gate asks (shared/delivery/gate.py). Then the
gate's questions are put to these turns alone, all others hidden, once with each model's vectors and once by words. Times are measured where the
command runs, which for a question is where it matters. Forgotten turns are not embedded.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dispatcher.memory.tombstones import Forgotten, hidden_by
from shared.config.settings import Settings
from shared.delivery import gate
from shared.delivery.trial import chunks_in, finds
from shared.embedding.choices import ModelChoice, in_use
from shared.embedding.models import Embedder
from shared.embedding.probes import prove
from shared.errors import EmbeddingError, InvalidInput, ReleaseRefused
from shared.ranking.question import Match
from shared.release.manifest import current_release, no_release
from shared.search.recall import OpenRelease
from shared.search.types import HiddenTurns
from shared.turns.chunk import Chunk
from shared.turns.chunking import indexed_text
from shared.vectors.base import NullBackend

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: Texts between two reports of progress.
BATCH_TEXTS = 64
#: Bytes of a number on disk (the default index) and in memory.
ON_DISK, IN_MEMORY = 2, 4

#: Called with what is being done, and how much of it is done.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Sample:
    """What is embedded and asked. `texts` of the whole release are distinct, and so what a first night embeds; `chunks` of it and `turns`, too."""

    run: int
    turns: int
    chunks: int
    texts: int
    taken: dict[str, list[Chunk]]  # chat -> its sampled chunks
    indexed: dict[tuple[str, str], str]  # chat and chunk id -> the text that is embedded
    hidden: dict[str, HiddenTurns]  # chat -> all that is not sampled
    probes: list[gate.Probe]

    @property
    def size(self) -> int:
        return sum(map(len, self.taken.values()))


@dataclass
class Measured:
    """One model. Shares are counts of the questions, times seconds, sizes bytes; `error` is the sentence where it could not be measured."""

    choice: ModelChoice
    dimensions: int = 0
    found: list[bool] = field(default_factory=list)
    found_by_vectors: list[bool] = field(default_factory=list)
    question_seconds: list[float] = field(default_factory=list)
    texts_per_second: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)  # reason -> texts
    error: str | None = None

    def night_seconds(self, sample: Sample) -> float:
        """Of the first night, which embeds every text; extrapolated from the sample."""
        return sample.texts / self.texts_per_second if self.texts_per_second else 0.0

    def bytes_per_1000_turns(self, sample: Sample, number: int) -> int:
        return round(1000 * sample.chunks / sample.turns * self.dimensions * number)

    def to_json(self, sample: Sample) -> dict[str, Any]:
        head = {
            "embedder": self.choice.embedder,
            "embed_model": self.choice.name,
            "listed": self.choice.listed,
            "licence": self.choice.model.licence,
            "error": self.error,
        }
        if self.error:
            return head
        median, late = of_times(self.question_seconds)
        return head | {
            "dimensions": self.dimensions,
            "found": sum(self.found),
            "found_by_vectors": sum(self.found_by_vectors),
            "question_ms": {"median": round(1000 * median, 2), "p95": round(1000 * late, 2)},
            "texts_per_second": round(self.texts_per_second, 1),
            "night_seconds": round(self.night_seconds(sample), 1),
            "disk_bytes_per_1000_turns": self.bytes_per_1000_turns(sample, ON_DISK),
            "memory_bytes_per_1000_turns": self.bytes_per_1000_turns(sample, IN_MEMORY),
            "refused": self.refused,
        }


@dataclass(frozen=True)
class Trial:
    """Both models; `current` is None with EMBEDDER=none, and is `wanted` itself if that is the one in use."""

    sample: Sample
    wanted: Measured
    current: Measured | None
    found_by_words: list[bool]

    @property
    def same(self) -> bool:
        return self.current is self.wanted

    def verdict(self) -> dict[str, Any] | None:
        """What the night's gate would say of the switch on these questions; None if there is nothing to compare with."""
        if self.current is None or self.current.error or self.same:
            return None
        return gate.verdict(self.current.found, self.wanted.found, [])


def of_times(seconds: Sequence[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    return statistics.median(seconds), float(np.percentile(seconds, 95))


def run_trial(settings: Settings, wanted: ModelChoice, size: int, progress: Progress) -> Trial:
    """Measure `wanted` beside the model in use, on about `size` chunks.

    InvalidInput if there is no release, or nothing in it to ask for; ReleaseRefused if it is damaged; EmbeddingError if `wanted` cannot be used. A
    model in use that does not answer is an error in its own result.
    """
    path = current_release(settings.hmem_memory_dir)
    if path is None:
        raise InvalidInput(no_release(settings.hmem_memory_dir))
    with closing(wanted.open(settings)) as embedder, closing(OpenRelease(settings, path)) as release:
        prove(embedder)  # before anything is read: whether it is here, and is the model that it should be
        sample = take(settings, release, size)
        measured = _measure(release, sample, wanted, embedder, progress)
        current = _measure_current(settings, release, sample, measured, progress)
        release.search_with(NullBackend("by words, for comparison"))
        by_words = [_asked(release, sample, probe) for probe in sample.probes]
    return Trial(sample, measured, current, by_words)


def _measure_current(
    settings: Settings, release: OpenRelease, sample: Sample, measured: Measured, progress: Progress
) -> Measured | None:
    current, wanted = in_use(settings), measured.choice
    if current is None:
        return None
    if (current.embedder, current.model) == (wanted.embedder, wanted.model):
        return measured
    try:
        with closing(current.open(settings)) as embedder:
            prove(embedder)
            return _measure(release, sample, current, embedder, progress)
    except EmbeddingError as error:
        return Measured(current, error=str(error))


def take(settings: Settings, release: OpenRelease, size: int) -> Sample:
    """About `size` chunks: the newest turns of the chats that the gate asks, of each as many; short chats leave their room to the others."""
    release.open_texts()
    if release.text_missing:
        raise ReleaseRefused(release.text_missing)
    forgotten = Forgotten(settings.hmem_state_dir)
    of_chats: dict[str, list[Chunk]] = {}
    for chunk in chunks_in(release.path):
        of_chats.setdefault(chunk.chat_id, []).append(chunk)
    gone = {chat: HiddenTurns(*hidden_by(forgotten.of(chat))) for chat in of_chats}
    of_chats = {chat: [one for one in chunks if not gone[chat].covers(one)] for chat, chunks in of_chats.items()}
    everything = [chunk for chunks in of_chats.values() for chunk in chunks]
    taken = share(of_chats, size)
    probes = gate.choose(chunk for chunks in taken.values() for chunk in chunks)
    if not probes:
        what = "Raise --sample." if everything else "Run it again after a night with turns."
        raise InvalidInput(f"The sample of release {release.run} has no text that a question could be made of. {what}")
    zone, hidden = settings.timezone, {}
    for chat, chunks in taken.items():
        inside = {turn_id for chunk in chunks for turn_id in chunk.turn_ids}
        outside = {turn_id for chunk in of_chats[chat] for turn_id in chunk.turn_ids} - inside
        hidden[chat] = HiddenTurns(gone[chat].turn_ids | outside, gone[chat].before)
    return Sample(
        release.run,
        len({(chunk.chat_id, turn_id) for chunk in everything for turn_id in chunk.turn_ids}),
        len(everything),
        len({indexed_text(chunk, zone) for chunk in everything}),
        taken,
        {(chat, chunk.chunk_id): indexed_text(chunk, zone) for chat, chunks in taken.items() for chunk in chunks},
        hidden,
        probes,
    )


def share(of_chats: dict[str, list[Chunk]], size: int) -> dict[str, list[Chunk]]:
    """Of each chat the newest whole turns, at most `size` chunks together; a chat that has less than its share leaves the rest to longer ones."""
    chats = gate.probed_chats(chat for chat, chunks in of_chats.items() if chunks)
    found = {}
    for number, chat in enumerate(sorted(chats, key=lambda one: len(of_chats[one]))):
        newest = _newest(of_chats[chat], size // (len(chats) - number))
        size -= len(newest)
        if newest:
            found[chat] = newest
    return found


def _newest(chunks: list[Chunk], most: int) -> list[Chunk]:
    """The last whole turns, in the order of time, of at most so many chunks."""
    turns: dict[tuple[str, ...], list[Chunk]] = {}
    for chunk in chunks:
        turns.setdefault(chunk.turn_ids, []).append(chunk)
    found: list[list[Chunk]] = []
    for passages in reversed(turns.values()):
        most -= len(passages)
        if most < 0:
            break
        found.append(passages)
    return [chunk for passages in reversed(found) for chunk in passages]


def _measure(
    release: OpenRelease, sample: Sample, choice: ModelChoice, embedder: Embedder, progress: Progress
) -> Measured:
    measured = Measured(choice, embedder.identity.dimensions)
    texts = list(dict.fromkeys(sample.indexed.values()))
    vectors: dict[str, Vectors] = {}
    spent = 0.0
    for start in range(0, len(texts), BATCH_TEXTS):
        progress(choice.name, start, len(texts))
        batch = texts[start : start + BATCH_TEXTS]
        began = time.perf_counter()
        answer = embedder.embed_documents(batch)
        spent += time.perf_counter() - began
        vectors |= {text: answer.vectors[row] for row, text in enumerate(batch) if row not in answer.refused}
        for reason in answer.refused.values():
            measured.refused[reason] = measured.refused.get(reason, 0) + 1
    progress(choice.name, len(texts), len(texts))
    measured.texts_per_second = len(texts) / max(spent, 1e-9)
    backend = _SampledVectors(embedder, sample, vectors)
    for question in dict.fromkeys(probe.question for probe in sample.probes):
        began = time.perf_counter()
        backend.vector(question)
        measured.question_seconds.append(time.perf_counter() - began)
    release.search_with(backend)
    measured.found = [_asked(release, sample, probe) for probe in sample.probes]
    measured.found_by_vectors = [backend.finds(probe) for probe in sample.probes]
    return measured


def _asked(release: OpenRelease, sample: Sample, probe: gate.Probe) -> bool:
    ids = {chunk.chunk_id for chunk in sample.taken[probe.chat_id]}
    return finds(release, probe, ids, sample.hidden[probe.chat_id])


class _SampledVectors:
    """The vectors of the sample as a backend (shared/vectors/base.py)."""

    why_not: str | None = None

    def __init__(self, embedder: Embedder, sample: Sample, vectors: dict[str, Vectors]) -> None:
        self._embedder = embedder
        self._questions: dict[str, Vectors] = {}
        self._of_chats = {
            chat: {
                one.chunk_id: vectors[text] for one in chunks if (text := sample.indexed[chat, one.chunk_id]) in vectors
            }
            for chat, chunks in sample.taken.items()
        }

    def vector(self, query: str) -> Vectors:
        if query not in self._questions:
            self._questions[query] = self._embedder.embed_query(query)
        return self._questions[query]

    def similarities(self, query: str, chat_id: str, chunk_ids: Iterable[str]) -> Vectors:
        known, question = self._of_chats.get(chat_id, {}), self.vector(query)
        found = [float(known[one] @ question) if one in known else np.nan for one in chunk_ids]
        return np.array(found, dtype=np.float32)

    def search(self, query: str, chat_id: str, k: int) -> list[Match]:
        ids = list(self._of_chats.get(chat_id, {}))
        cosines = self.similarities(query, chat_id, ids)
        return [Match(ids[row], float(cosines[row])) for row in np.argsort(-cosines, kind="stable")[:k]]

    def finds(self, probe: gate.Probe) -> bool:
        """Whether at most FOUND_WITHIN - 1 chunks of the sample are nearer to the question; equal texts are equally near."""
        ids = list(self._of_chats[probe.chat_id])
        if probe.chunk_id not in ids:
            return False
        cosines = self.similarities(probe.question, probe.chat_id, ids)
        return int((cosines > cosines[ids.index(probe.chunk_id)]).sum()) < gate.FOUND_WITHIN

    def is_available(self) -> bool:
        return True

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""
