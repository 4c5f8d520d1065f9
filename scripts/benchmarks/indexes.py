"""`scripts/bench indexes`: every vector index that this host can build, side by side, on the same seeded vectors and questions.

Of each size three indexes are built, as three nights would: the turns from nothing; with new turns, the first index being there to be taken over;
and the same from nothing. The first is opened and asked. Each of these runs in a process of its own (`main` below), so that its memory is its own and
it can be ended. Answers are compared with an exact search. Servers lose what was put on them; the size and memory of theirs is not counted.

The vectors lie as those of texts do: around centres (topics), each with a share of its own that lies mostly in a few directions.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson
import typer

from dispatcher.cli.arguments import Json
from scripts.benchmarks.world import describe_machine, megabytes
from shared.config import kinds
from shared.config.credentials import for_child
from shared.config.settings import Settings, load_settings
from shared.embedding.known_models import MINILM
from shared.embedding.models import DocumentVectors, EmbeddingIdentity
from shared.errors import HmemError, InvalidInput
from shared.release.manifest import Manifest, read_manifest, seal
from shared.release.parts import Earlier
from shared.system.command import print_json, start
from shared.system.files import make_dir, remove_tree
from shared.system.processes import last_line, module_command, run_bounded
from shared.vectors.base import Corpus, backend_of, builder_of
from shared.vectors.on_server import builder_on
from shared.vectors.searching import AskingBackend

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

#: How many are asked for; a hit counts if it is as near as the K-th nearest, but for the rounding of float16.
K, ROUNDING = 10, 0.001
#: Chats that are asked: what is warm is what was asked lately, and nobody talks in all chats at the same time.
CHATS_ASKED = 4
ROWS_A_TOPIC = 50
#: What a vector has of its topic, and what a question has of the turn it is about; the rest is its own. Both as cosines.
OF_ITS_TOPIC, OF_ITS_TURN = 0.7, 0.75
#: POSIX seconds of the first turn of every chat, and between two turns.
BEGUN, PAUSE_SECONDS = 1_700_000_000.0, 60.0
QUESTION = "question "
IDENTITY = EmbeddingIdentity("made-up", MINILM.dimensions, "", "", "bench", "1")

Row = dict[str, Any]


class NotMeasured(Exception):
    """Why a backend is not measured any further."""


@dataclass(frozen=True)
class Task:
    """What a process of its own does in `folder`: build the release `run` with so many turns of each chat, or ask it the questions."""

    backend: str
    index_name: str
    folder: str
    run: int
    turns: int
    earlier: int | None = None  # build: the release with so many turns of each chat (`held`) that may be taken over
    held: int = 0
    asked: Sequence[int] = ()  # the chat of each question; empty to build

    @property
    def release(self) -> Path:
        return Path(self.folder, "releases", str(self.run))


def indexes(
    turns: Annotated[list[int] | None, typer.Option(min=1, help="Number of turns; repeatable.")] = None,
    chats: Annotated[int, typer.Option(min=1, help="Number of chats of equal size.")] = 20,
    backends: Annotated[str, typer.Option(help="Backends, separated by commas.")] = ",".join(kinds.indexes()),
    new: Annotated[int, typer.Option(min=1, help="Number of new turns of the next night.")] = 1000,
    queries: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 200,
    limit: Annotated[float, typer.Option(min=1, help="Time limit of one build in seconds.")] = 600.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the turns and questions.")] = 0,
    json: Json = False,
) -> None:
    """Build, open and search every vector index that is available here, with the same invented turns; your data is not read or changed."""
    named = [one.strip() for one in backends.split(",") if one.strip()]
    if unknown := [name for name in named if name not in kinds.indexes()]:
        raise InvalidInput(f"--backends: {unknown[0]!r} is not one of {', '.join(kinds.indexes())}.")
    settings, rows = start(), []
    for size in turns or [1000]:
        vectors = clustered(chats, size // chats, max(1, new // chats), seed)
        for name in named:
            typer.echo(f"{size:,} turns, {name}: measuring", err=True)
            rows.append(
                {"turns": size, "index": name, **measured(settings, name, vectors, size // chats, queries, limit)}
            )
    if json:
        print_json(rows)
        return
    describe_machine()
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for line in (columns, ["---"] * len(columns), *([_cell(row.get(column)) for column in columns] for row in rows)):
        typer.echo(f"| {' | '.join(line)} |")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,.3g}" if isinstance(value, float) else str(value)


def measured(settings: Settings, name: str, vectors: Vectors, old: int, queries: int, limit: float) -> Row:
    """The figures of one index: `vectors` are (chats, turns, dimensions), of which the first `old` of each chat are not new."""
    server = kinds.served().get(name)
    index_name = f"hmembench{secrets.token_hex(4)}"
    named = settings.model_copy(update={"index_name": index_name})
    try:
        if server and server(settings) is None:
            return {
                "why": "its server is not set (QDRANT_URL, or REDIS_VECTORS_URL: the Redis of the queue is not filled)"
            }
        builder_of(name, settings, 1).refuse_unless_usable()
    except HmemError as error:
        return {"why": str(error)}
    with tempfile.TemporaryDirectory(prefix="hmem-bench-") as folder:
        np.save(Path(folder, "vectors.npy"), vectors)
        first = Task(name, index_name, folder, 1, old)
        try:
            return _measured(first, named, vectors, queries, limit)
        except NotMeasured as stopped:
            return {"why": str(stopped)}
        finally:
            if server:
                builder_on(named, name).sweep(())


def _measured(first: Task, settings: Settings, vectors: Vectors, queries: int, limit: float) -> Row:
    chats, turns, _ = vectors.shape
    row: Row = {"build_s": _build(first, limit)}
    grown = replace(first, run=2, turns=turns, earlier=1, held=first.turns)
    asked, questions = _questions(vectors[:, : first.turns], queries)
    np.save(Path(first.folder, "questions.npy"), questions)
    told = _in_own_process(replace(first, asked=asked), limit)
    found = told.pop("found")
    row |= told | {"recall": recall(vectors[:, : first.turns], asked, questions, found)}
    row["next_s"] = _build(grown, limit)
    if first.backend in kinds.served():  # at least the vectors that are uploaded
        row["new_mb"] = (
            (turns - first.turns if first.backend == "redis" else turns) * chats * 4 * MINILM.dimensions / 1e6
        )
        builder_on(settings, first.backend).sweep(())  # or there would be rows to reuse
    else:
        held = {one["sha256"] for one in read_manifest(first.release).files.values()}
        new = read_manifest(grown.release).files.values()
        row["mb"] = sum(one["size"] for one in read_manifest(first.release).files.values()) / 1e6
        row["new_mb"] = sum(one["size"] for one in new if one["sha256"] not in held) / 1e6
    remove_tree(grown.release)
    row["rebuild_s"] = _build(replace(grown, run=3, earlier=None), limit)
    return row


def _build(task: Task, limit: float) -> float:
    """Seconds; the release is sealed."""
    make_dir(task.release)
    seconds = float(_in_own_process(task, limit)["seconds"])
    seal(task.release, Manifest(task.run, None, {}, 1, 1, "UTC", [task.backend], IDENTITY, 0, 0, 0, 0, {}))
    return seconds


def _in_own_process(task: Task, limit: float) -> dict[str, Any]:
    given, answer = Path(task.folder, "task.json"), Path(task.folder, "answer.json")
    given.write_bytes(orjson.dumps(task))
    answer.unlink(missing_ok=True)
    command = module_command("scripts.benchmarks.indexes", str(given), str(answer))
    try:
        with for_child() as (environment, descriptors):
            done = run_bounded(command, limit, environment=environment, descriptors=descriptors)
    except subprocess.TimeoutExpired as error:
        raise NotMeasured(f"it took longer than --limit {limit:g} s") from error
    if done.returncode:
        raise NotMeasured(last_line(done))
    told: dict[str, Any] = orjson.loads(answer.read_bytes())
    return told


# ── the vectors, and the exact search ─────────────────────────────────────────────────────────────────────────────────


def clustered(chats: int, old: int, new: int, seed: int) -> Vectors:
    """Unit vectors of shape (chats, old + new, dimensions)."""
    chance, rows = np.random.default_rng([seed, 1]), chats * (old + new)
    centres = _noise(chance, max(1, rows // ROWS_A_TOPIC))
    topics = centres[chance.integers(len(centres), size=rows)]
    return _between(topics, _noise(chance, rows), OF_ITS_TOPIC).reshape(chats, old + new, MINILM.dimensions)


def _questions(vectors: Vectors, count: int) -> tuple[list[int], Vectors]:
    """The chat of each question, and its vector: that of a turn of the chat, turned away from it."""
    chance = np.random.default_rng([len(vectors), 2])
    step = -(-len(vectors) // CHATS_ASKED)
    chats = sorted(step * (number % -(-len(vectors) // step)) for number in range(count))
    about = np.array([vectors[chat, chance.integers(vectors.shape[1])] for chat in chats])
    return chats, _between(about, _noise(chance, count), OF_ITS_TURN)


def _noise(chance: np.random.Generator, rows: int) -> Vectors:
    """Unit vectors whose length is mostly in the first directions, as with those of texts."""
    spread = (1 / np.sqrt(1 + np.arange(MINILM.dimensions) / 16)).astype(np.float32)
    return _unit(chance.standard_normal((rows, MINILM.dimensions), dtype=np.float32) * spread)


def _between(near: Vectors, other: Vectors, cosine: float) -> Vectors:
    """Unit vectors about this near to the first ones."""
    return _unit(np.float32(cosine) * near + np.float32((1 - cosine**2) ** 0.5) * other)


def _unit(vectors: Vectors) -> Vectors:
    made: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return made


def recall(vectors: Vectors, chats: Sequence[int], questions: Vectors, found: Sequence[Sequence[str]]) -> float:
    """The share of the K nearest that were found, on the average of the questions."""
    right = list[float]()
    for chat, question, ids in zip(chats, questions, found, strict=True):
        scores = vectors[chat] @ question
        wanted = min(K, len(scores))
        least = np.partition(scores, -wanted)[-wanted] - ROUNDING
        near = {one for one, score in zip(_ids(chat, len(scores)), scores, strict=True) if score >= least}
        right.append(len(near.intersection(ids)) / wanted)
    return float(np.mean(right))


def _ids(chat: int, count: int) -> tuple[str, ...]:
    return tuple(f"t{chat}-{number}:user#1" for number in range(count))


# ── in a process of its own ───────────────────────────────────────────────────────────────────────────────────────────


class Known:
    """An embedder that knows the vectors of its questions: how long one takes says nothing about an index."""

    texts_at_once = 1
    identity = IDENTITY

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def embed_documents(self, texts: Sequence[str]) -> DocumentVectors:
        return DocumentVectors(np.array([self.embed_query(text) for text in texts], np.float32))

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self._vectors[int(text.removeprefix(QUESTION))]
        return vector

    def close(self) -> None:
        """Nothing to give back."""


def build(task: Task, settings: Settings) -> dict[str, Any]:
    """Seconds of one build, with the import of its library as in a night."""
    vectors = np.load(Path(task.folder, "vectors.npy"), mmap_mode="r")
    new = range(task.held if task.backend == "sqlite" else 0, task.turns)  # an index in parts is given what no part has
    rows = slice(new.start, new.stop)
    chats = {f"chat-{chat}": (_ids(chat, task.turns)[rows], vectors[chat, rows]) for chat in range(len(vectors))}
    corpus = Corpus(chats)
    place, earlier = kinds.place_of(task.backend), None
    if task.earlier is not None and task.backend == "sqlite":
        before = replace(task, run=task.earlier).release / place
        earlier = Earlier(before, tuple(sorted(part.name for part in before.iterdir())))
    began = time.perf_counter()
    builder_of(task.backend, settings, task.run).build(task.release / place, corpus, earlier)
    return {"seconds": time.perf_counter() - began}


def ask(task: Task, settings: Settings) -> dict[str, Any]:
    """Open the release and ask: seconds, milliseconds (median and 99th percentile), memory, and the ids that were found. Warm but for `first_ms`."""
    backend = backend_of(settings, task.release, read_manifest(task.release))
    if not isinstance(backend, AskingBackend):
        raise SystemExit(backend.why_not)
    searched, found = list[float](), list[list[str]]()
    with closing(backend):
        began = time.perf_counter()
        backend.open_with(Known(np.load(Path(task.folder, "questions.npy"))))
        opened = time.perf_counter() - began

        def search(number: int) -> tuple[float, list[str]]:
            query, ids = f"{QUESTION}{number}", _ids(task.asked[number], task.turns)
            backend.vector(query)
            began = time.perf_counter()
            found = backend.similarities(query, f"chat-{task.asked[number]}", ids)
            took = 1000 * (time.perf_counter() - began)
            return took, [ids[row] for row in np.argsort(-found)[:K]]

        first, _ = search(0)
        for number, chat in enumerate(task.asked):
            if chat not in task.asked[:number]:
                search(number)  # what a chat needs once is no part of a warm answer
            took, ids = search(number)
            searched.append(took)
            found.append(ids)
    p50, p99 = map(float, np.percentile(searched, [50, 99]))
    told = {"open_s": opened, "first_ms": first, "p50_ms": p50, "p99_ms": p99, "memory_mb": megabytes(os.getpid())}
    return told | {"found": found}


def main(given: str, answer: str) -> None:
    task = Task(**orjson.loads(Path(given).read_bytes()))
    state = Path(task.folder, "state")
    settings = load_settings(memory_backend=task.backend, index_name=task.index_name, hmem_state_dir=state)
    try:
        told = ask(task, settings) if task.asked else build(task, settings)
    except HmemError as error:
        raise SystemExit(str(error)) from error
    Path(answer).write_bytes(orjson.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
