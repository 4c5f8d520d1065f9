"""`scripts/bench indexes`: every vector index that this host can build, side by side, on the same turns and the same questions.

Of each size three indexes are built, as three nights would: the turns from nothing; with the new turns, the first one being there to be taken over;
and the same from nothing. The first is opened and asked in a fresh process. What a night would send of the second, the files
that the first does not have, is counted by rsync. Answers are compared with an exact search.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from nightly.night.target import transfer
from scripts.benchmarks.indexes.corpus import MadeUp, Questions, Shape, make
from scripts.benchmarks.indexes.probe import Task, identity, release_of
from shared.config.credentials import for_child
from shared.config.kinds import indexes, place_of, served
from shared.config.settings import Settings
from shared.errors import HmemError, InvalidInput, PublishFailed, StorageError
from shared.release.manifest import Manifest, seal
from shared.system.files import make_dir, remove_tree, sha256_file
from shared.system.processes import last_line, module_command, run_bounded
from shared.vectors.registry import builder_of, served_builder_of

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

Say = Callable[[str], None]

#: How many are asked for; a hit counts if it is as near as the K-th nearest, but for the rounding of float16.
K, ROUNDING = 10, 0.001
#: Chats unless told otherwise.
CHATS = 20
#: Room in the temporary directory: the corpus, and at most four copies of an index of its size.
COPIES = 5


@dataclass(frozen=True)
class Plan:
    """What is measured."""

    turns: tuple[int, ...]
    backends: tuple[str, ...] = ("sqlite", "chroma", "lancedb", "qdrant", "redis")
    chats: int | None = None
    new: int = 1000
    queries: int = 200
    seed: int = 0
    limit: float = 600.0  # seconds, of one build

    def chats_of(self, turns: int) -> int:
        return self.chats or min(CHATS, turns)

    def refuse_unless_possible(self) -> None:
        """InvalidInput with one sentence."""
        if unknown := [name for name in self.backends if name not in indexes()]:
            raise InvalidInput(
                f"--backends: {unknown[0]!r} is not one of {', '.join(indexes())}. Name some of these, separated by commas."
            )
        if self.chats is not None and self.chats > min(self.turns):
            raise InvalidInput(
                f"--chats {self.chats} does not fit {min(self.turns):,} turns: each chat has at least one. Use 1 to {min(self.turns):,}."
            )


@dataclass
class Row:
    """One backend at one size. What could not be measured is None, and `why` says the reason."""

    turns: int
    chats: int
    backend: str
    status: str = "measured"  # or "not available", "left out", "failed"
    why: str | None = None
    build_seconds: float | None = None
    bytes: int | None = None  # of the index on this host; None if a server holds it
    files: int | None = None
    open_seconds: float | None = None
    first_ms: float | None = None
    search_ms: tuple[float, float] | None = None  # median and 99th percentile
    whole_chat_ms: tuple[float, float] | None = None
    told: float | None = None  # share of a chat's chunks whose similarity the index told
    recall: float | None = None
    rss_bytes: int | None = None
    next_build_seconds: float | None = None
    rebuild_seconds: float | None = None
    moved_bytes: int | None = None
    moved_at_least: bool = False  # uploaded to a server: counted as the vectors alone


class _Stopped(Exception):
    """Why a backend is not measured any further."""

    def __init__(self, status: str, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass
class Bench:
    """One run of the measurement, in a temporary directory that is gone with it."""

    settings: Settings
    plan: Plan
    say: Say
    rows: list[Row] = field(default_factory=list)

    def run(self) -> list[Row]:
        """The rows, by size and then in the order of the backends."""
        plan = self.plan
        plan.refuse_unless_possible()
        settings = self.settings.model_copy(update={"index_name": f"hmembench{secrets.token_hex(4)}"})
        with tempfile.TemporaryDirectory(prefix="hmem-bench-") as scratch:
            for turns in sorted(set(plan.turns)):
                shape = Shape(turns, plan.new, plan.chats_of(turns))
                _refuse_without_room(Path(scratch), shape.rows, shape.dimensions)
                made = make(Path(scratch), shape, plan.seed)
                for name in plan.backends:
                    self.rows.append(self._row(settings, name, made, Path(scratch)))
                made.path.unlink()
        return self.rows

    def _row(self, settings: Settings, name: str, made: MadeUp, scratch: Path) -> Row:
        row = Row(made.shape.turns, made.shape.chats, name)
        try:
            self._refuse(settings, row)
            with _place(settings, name, scratch, self.say) as folder:
                _Measuring(settings, self.plan, self.say, made, folder, row).measure()
        except _Stopped as stopped:
            row.status, row.why = stopped.status, str(stopped)
            self.say(f"{row.turns:,} turns, {name}: {row.status}: {row.why}")
        return row

    def _refuse(self, settings: Settings, row: Row) -> None:
        server = served().get(row.backend)
        address = server(settings) if server else None
        if row.backend == "redis" and address is None:
            raise _Stopped(
                "not available", "REDIS_VECTORS_URL is not set, and the Redis of the queue is not to be filled"
            )
        if row.backend == "qdrant" and address is None:
            raise _Stopped("not available", "QDRANT_URL is not set")
        try:
            builder_of(row.backend, settings, 1).refuse_unless_usable()
        except HmemError as error:
            raise _Stopped("not available", str(error)) from error
        before = (one for one in self.rows if one.backend == row.backend and one.status in ("left out", "failed"))
        if stopped := next(before, None):
            raise _Stopped("left out", f"already {stopped.status} at {stopped.turns:,} turns")


@contextmanager
def _place(settings: Settings, name: str, scratch: Path, say: Say) -> Iterator[Path]:
    """A directory for one row; it and what the row put on a server are gone afterwards, also after Ctrl-C."""
    folder = make_dir(scratch / name)
    try:
        yield folder
    finally:
        remove_tree(folder)
        if name in served():
            _sweep(settings, name, say)


def _sweep(settings: Settings, name: str, say: Say) -> None:
    try:
        served_builder_of(name, settings, 1).sweep(())
    except HmemError as error:
        say(
            f"Indexes whose names begin with {settings.index_name} could not be removed from the {name} server: {error}"
        )


@dataclass
class _Measuring:
    """Fills one row."""

    settings: Settings
    plan: Plan
    say: Say
    made: MadeUp
    folder: Path
    row: Row

    def measure(self) -> None:
        row, shape = self.row, self.made.shape
        self._say("building")
        row.build_seconds = self._build(1)
        index = release_of(self.folder, 1) / place_of(row.backend)
        if row.backend not in served():
            row.bytes, row.files = _size(index)
        self._say("asking")
        self._read()
        self._say(f"building with {shape.new:,} new turns")
        row.next_build_seconds = self._build(2, grown=True, earlier=1)
        if row.backend in served():
            sent = shape.new if row.backend == "redis" else shape.rows
            row.moved_bytes, row.moved_at_least = sent * 4 * shape.dimensions, True
        else:
            row.moved_bytes = moved(self.folder)
        remove_tree(release_of(self.folder, 2))
        self._say(f"building all {shape.rows:,} from scratch")
        if row.backend in served():  # or there would be rows to reuse
            _sweep(self.settings, row.backend, self.say)
        row.rebuild_seconds = self._build(3, grown=True)

    def _build(self, run: int, *, grown: bool = False, earlier: int | None = None) -> float:
        make_dir(release_of(self.folder, run))
        task = self._task(run, self.made.path, grown=grown, earlier=earlier)
        seconds = float(self._in_a_process("build", task)["seconds"])
        embedding = identity(self.made.shape.dimensions)
        seal(
            release_of(self.folder, run),
            Manifest(run, None, {}, 1, 1, "UTC", [self.row.backend], embedding, 0, 0, 0, 0, {}),
        )
        return seconds

    def _read(self) -> None:
        questions = self.made.questions(self.plan.queries, self.plan.seed)
        path = self.folder / "questions.npy"
        np.save(path, questions.vectors)
        told = self._in_a_process("read", self._task(1, path, asked=tuple(questions.chats), k=K))
        row = self.row
        row.open_seconds, row.first_ms, row.told = told["open_seconds"], told["first_ms"], told["told"]
        row.search_ms, row.whole_chat_ms = tuple(told["search_ms"]), tuple(told["whole_chat_ms"])
        row.rss_bytes = told["rss_bytes"]
        row.recall = recall(self.made, questions, told["found"])

    def _task(self, run: int, vectors: Path, **more: Any) -> Task:
        shape, name = asdict(self.made.shape), self.settings.index_name
        return Task(self.row.backend, name, str(self.folder), shape, str(vectors), run, **more)

    def _in_a_process(self, what: str, task: Task) -> dict[str, Any]:
        given, answer = self.folder / "task.json", self.folder / "answer.json"
        given.write_bytes(orjson.dumps(asdict(task)))
        answer.unlink(missing_ok=True)
        command = module_command("scripts.benchmarks.indexes.probe", what, str(given), str(answer))
        try:
            with for_child() as (environment, descriptors):
                done = run_bounded(command, self.plan.limit, environment=environment, descriptors=descriptors)
        except subprocess.TimeoutExpired as error:
            raise _Stopped("left out", f"{what} took longer than --limit {self.plan.limit:g} s") from error
        told: dict[str, Any] = orjson.loads(answer.read_bytes()) if done.returncode == 0 else {"why": last_line(done)}
        if "why" in told:
            raise _Stopped("failed", f"{what}: {told['why']}")
        return told

    def _say(self, what: str) -> None:
        self.say(f"{self.row.turns:,} turns, {self.row.backend}: {what}")


def recall(made: MadeUp, questions: Questions, found: Sequence[Sequence[str]]) -> float:
    """The share of the K nearest that were found, on the average of the questions."""
    right = list[float]()
    for chat in dict.fromkeys(questions.chats):
        asked = [number for number, one in enumerate(questions.chats) if one == chat]
        rows = made.shape.old_rows(chat)
        scores: Vectors = made.vectors[rows.start : rows.stop] @ questions.vectors[asked].T
        known = {one: row for row, one in enumerate(made.shape.ids(chat, grown=False))}
        wanted = min(K, len(rows))
        for place, number in enumerate(asked):
            least = np.partition(scores[:, place], -wanted)[-wanted] - ROUNDING
            near = {one for one in found[number] if one in known and scores[known[one], place] >= least}
            right.append(len(near) / wanted)
    return float(np.mean(right))


def moved(folder: Path) -> int:
    """What rsync sends and receives for the files of release 2 that release 1 does not have, as in a night; the copy is removed."""
    copy, release = folder / "copy", release_of(folder, 2)
    held = {sha256_file(path) for path in release_of(folder, 1).rglob("*") if path.is_file()}
    names = [path.relative_to(release).as_posix() for path in release.rglob("*") if path.is_file()]
    try:
        return transfer(release, [name for name in names if sha256_file(release / name) not in held], f"{copy}/")
    except PublishFailed as error:
        raise _Stopped("failed", str(error)) from error
    finally:
        remove_tree(copy)


def _size(index: Path) -> tuple[int, int]:
    """Bytes and number of files of an index that is a file or a directory."""
    files = [path for path in ([index] if index.is_file() else index.rglob("*")) if path.is_file()]
    return sum(path.stat().st_size for path in files), len(files)


def _refuse_without_room(scratch: Path, rows: int, dimensions: int) -> None:
    needed, free = rows * dimensions * 4 * COPIES, shutil.disk_usage(scratch).free
    if free < needed:
        raise StorageError(
            f"The measurement of {rows:,} turns may need {needed / 1e9:.1f} GB in {scratch.parent}, which has {free / 1e9:.1f} GB. "
            "Set TMPDIR to a place with more, or measure fewer turns."
        )
