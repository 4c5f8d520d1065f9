"""What `scripts/bench indexes` runs in a process of its own, one for each build and one to ask: so its memory is its own, and it can be ended.

    python -P -m scripts.benchmarks.indexes.probe build|read TASK ANSWER

TASK and ANSWER are JSON files. The questions come with vectors, which stand in for an embedder: how long one takes says nothing about an index.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from scripts.benchmarks.indexes.corpus import Shape, chat_id, read_vectors
from shared.config.kinds import place_of
from shared.config.settings import Settings, load_settings
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.errors import EmbeddingError, HmemError
from shared.release.manifest import read_manifest
from shared.release.parts import Earlier
from shared.system.privileges import close_to_others
from shared.vectors.registry import backend_of, builder_of
from shared.vectors.searching import AskingBackend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shared.embedding.models import Vectors

QUESTION = "question "


#: Seconds between two looks whether whoever asks still lives.
PARENT_SECONDS = 0.2


@dataclass(frozen=True)
class Task:
    """`folder` holds the releases and what a reader writes; `vectors` are those of the corpus, or of the questions."""

    backend: str
    index_name: str
    folder: str
    shape: dict[str, int]
    vectors: str
    run: int  # the release that is built or asked
    grown: bool = False  # build: with the new turns
    earlier: int | None = None  # build: the release, without the new turns, that may be taken over
    asked: tuple[int, ...] = ()  # read: the chat of each question
    k: int = 0
    parent: int = field(default_factory=os.getpid)  # the process that asks


def identity(dimensions: int) -> EmbeddingIdentity:
    """What a release of the measurement says that it was embedded with."""
    return EmbeddingIdentity("made-up", dimensions, "", "", "bench", "1")


def release_of(folder: Path, run: int) -> Path:
    return folder / "releases" / str(run)


class Known:
    """An embedder that knows the vectors of its questions."""

    texts_at_once = 1

    def __init__(self, vectors: Vectors) -> None:
        self._vectors, self.identity = vectors, identity(vectors.shape[1])

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        return DocumentVectors(np.array([self.embed_query(text) for text in texts], np.float32))

    def embed_query(self, text: str) -> Vectors:
        if not text.startswith(QUESTION):
            raise EmbeddingError(f"{text!r} is no question of this measurement.")
        vector: Vectors = self._vectors[int(text.removeprefix(QUESTION))]
        return vector

    def close(self) -> None:
        """Nothing to give back."""


def build(task: Task) -> dict[str, Any]:
    """Seconds of one build, with the import of its library as in a night."""
    settings, shape, folder = _settings(task), Shape(**task.shape), Path(task.folder)
    builder, place = builder_of(task.backend, settings, task.run), place_of(task.backend)
    corpus = shape.corpus(read_vectors(Path(task.vectors)), grown=task.grown)
    earlier = _earlier(task, shape, release_of(folder, task.earlier) / place) if task.earlier else None
    started = time.perf_counter()
    builder.build(release_of(folder, task.run) / place, corpus, earlier)
    return {"seconds": time.perf_counter() - started}


def _earlier(task: Task, shape: Shape, path: Path) -> Earlier:
    held = {chat_id(chat): frozenset(shape.ids(chat, grown=False)) for chat in range(shape.chats)}
    in_parts = task.backend == "sqlite"
    return Earlier(path, held, tuple(sorted(part.name for part in path.iterdir())) if in_parts else ())


def read(task: Task) -> dict[str, Any]:
    """Open the release and ask; seconds, milliseconds, bytes, and what came out."""
    release = release_of(Path(task.folder), task.run)
    questions = np.load(task.vectors)
    ids = {chat: Shape(**task.shape).ids(chat, grown=False) for chat in dict.fromkeys(task.asked)}
    backend = backend_of(_settings(task), release, read_manifest(release))
    if not isinstance(backend, AskingBackend):
        return {"why": backend.why_not}
    with closing(backend):
        started = time.perf_counter()
        backend.open_with(Known(questions))
        opened = time.perf_counter() - started
        return {"open_seconds": opened, **_Asking(backend, task, ids).answers()}


class _Asking:
    """The questions to one opened backend. A question's vector is there before the clock starts."""

    def __init__(self, backend: AskingBackend, task: Task, ids: dict[int, tuple[str, ...]]) -> None:
        self._backend, self._task, self._ids = backend, task, ids

    def answers(self) -> dict[str, Any]:
        first, _ = self._search(0)
        searched, compared, found = list[float](), list[float](), list[list[str]]()
        told, warm = list[float](), set[int]()
        for number, chat in enumerate(self._task.asked):
            if chat not in warm:  # what a chat needs once is no part of a warm answer
                warm.add(chat)
                self._search(number)
                self._compare(number)
            milliseconds, chunks = self._search(number)
            searched.append(milliseconds)
            found.append(chunks)
            milliseconds, share = self._compare(number)
            compared.append(milliseconds)
            told.append(share)
        return {
            "first_ms": first,
            "search_ms": percentiles(searched),
            "whole_chat_ms": percentiles(compared),
            "told": float(np.mean(told)),
            "rss_bytes": resident_bytes(),
            "found": found,
        }

    def _search(self, number: int) -> tuple[float, list[str]]:
        query, chat = self._query(number)
        started = time.perf_counter()
        found = self._backend.search(query, chat_id(chat), self._task.k)
        return (time.perf_counter() - started) * 1000, [match.chunk_id for match in found]

    def _compare(self, number: int) -> tuple[float, float]:
        """A whole chat, as a lookup does; the share of its chunks about which the index told something."""
        query, chat = self._query(number)
        started = time.perf_counter()
        scores = self._backend.similarities(query, chat_id(chat), self._ids[chat])
        return (time.perf_counter() - started) * 1000, float(np.isfinite(scores).mean())

    def _query(self, number: int) -> tuple[str, int]:
        query = f"{QUESTION}{number}"
        self._backend.vector(query)
        return query, self._task.asked[number]


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th."""
    middle, high = np.percentile(values, [50, 99])
    return float(middle), float(high)


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _settings(task: Task) -> Settings:
    return load_settings(
        memory_backend=task.backend, index_name=task.index_name, hmem_state_dir=Path(task.folder) / "state"
    )


def _end_with(parent: int) -> None:
    """End when the process that asks has ended, however it did: nobody else knows of us then."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


def main(what: str, task: str, answer: str) -> None:
    close_to_others()
    given = Task(**orjson.loads(Path(task).read_bytes()))
    threading.Thread(target=_end_with, args=(given.parent,), daemon=True).start()
    try:
        told = {"build": build, "read": read}[what](given)
    except HmemError as error:
        told = {"why": str(error)}
    Path(answer).write_bytes(orjson.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
