"""Measurement of the ways to keep vectors of many chats: one SQLite file, a Chroma collection per chat, Chroma collections that chats share.

Each is built in this process and read in one of its own, so that its memory is its own. Vectors are seeded random unit vectors: the
hardest ones for an approximate search, which sees no neighbourhoods.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import typer

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

    Chats = dict[str, tuple[list[str], Vectors]]

DIMENSIONS, SHARDS, K = 384, 64, 50
#: Chats that are touched, lookups when they are warm, and questions whose answer is compared with an exact search.
TOUCHED, WARM, COMPARED = 200, 1000, 50


class Reader(Protocol):
    """An opened layout."""

    def ids(self, chat: str, vector: Vectors) -> list[str]:
        """The K nearest of a chat, best first."""
        ...


class _Sqlite:
    def __init__(self, folder: Path) -> None:
        from shared.release.parts import part_files
        from shared.system.files import sha256_file
        from shared.vectors.sqlite.files import VectorFile

        for part in part_files(folder):
            sha256_file(part)
        self._file = VectorFile(folder, DIMENSIONS)

    def ids(self, chat: str, vector: Vectors) -> list[str]:
        found = self._file.chat(chat)
        return [match.chunk_id for match in found.nearest(vector, K)] if found else []


class _Chroma:
    """A chat's rows in a collection of its own, or among others in one of SHARDS."""

    def __init__(self, folder: Path, *, shared: bool) -> None:
        from nightly.index.previous import hash_files
        from shared.release.integrity import private_copy
        from shared.vectors import chroma

        hash_files(folder)
        private_copy(folder, folder.with_name("view"))
        self._client, self._shared = chroma._client(folder.with_name("view")), shared
        self._collections: dict[str, Any] = {}

    def ids(self, chat: str, vector: Vectors) -> list[str]:
        from shared.vectors.chroma import collection_name

        name = _shard(chat) if self._shared else collection_name(chat)
        if name not in self._collections:
            self._collections[name] = self._client.get_collection(name, embedding_function=None)
        where: Any = {"where": {"chat": chat}} if self._shared else {}
        answer = self._collections[name].query(query_embeddings=[vector], n_results=K, include=["distances"], **where)
        return cast("list[str]", answer["ids"][0])


def _shard(chat: str) -> str:
    return f"shard-{int.from_bytes(hashlib.sha256(chat.encode()).digest()[:4]) % SHARDS:03}"


def _build_sqlite(folder: Path, chats: Chats) -> None:
    from shared.vectors.base import Corpus
    from shared.vectors.sqlite.index import SqliteBuilder

    SqliteBuilder(1).build(folder, Corpus(chats))


def _build_collections(folder: Path, chats: Chats) -> None:
    from shared.vectors.base import Corpus
    from shared.vectors.chroma import ChromaBuilder

    ChromaBuilder().build(folder, Corpus(chats))


def _build_shards(folder: Path, chats: Chats) -> None:
    import numpy as np

    from shared.vectors import chroma

    folder.mkdir()
    shards: dict[str, list[str]] = {}
    for chat in chats:
        shards.setdefault(_shard(chat), []).append(chat)
    client = chroma._client(folder)
    for shard, members in shards.items():
        ids = [one for chat in members for one in chats[chat][0]]
        owners = [{"chat": chat} for chat in members for _ in chats[chat][0]]
        vectors = np.concatenate([chats[chat][1] for chat in members])
        collection = client.create_collection(
            shard, configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
        for start in range(0, len(ids), 5000):
            part = slice(start, start + 5000)
            collection.add(ids=ids[part], embeddings=vectors[part], metadatas=cast("Any", owners[part]))
    client.close()


LAYOUTS: dict[str, tuple[str, Callable[[Path, Chats], None], Callable[[Path], Reader]]] = {
    "sqlite": ("one SQLite file, exact", _build_sqlite, _Sqlite),
    "collections": ("Chroma, a collection per chat", _build_collections, lambda folder: _Chroma(folder, shared=False)),
    "shards": (f"Chroma, {SHARDS} shared collections", _build_shards, lambda folder: _Chroma(folder, shared=True)),
}


def compare(numbers: list[int], vectors: int, names: list[str]) -> None:
    """Print a row for each number of chats and each layout, as a table in Markdown."""
    typer.echo(
        f"{vectors} vectors of {DIMENSIONS} dimensions; {K} nearest; {TOUCHED} chats touched (or all); memory of a process that does nothing else"
    )
    typer.echo(
        "| chats | layout | build s | MB | files | open s | first ms | first touch p50 / p99 ms | warm p50 / p99 ms | RSS MB | found |"
    )
    typer.echo("|---|---|---|---|---|---|---|---|---|---|---|")
    for number in numbers:
        chats = dict(_made_up(number, vectors))
        for name in names:
            with tempfile.TemporaryDirectory(prefix="hmem-bench-") as scratch:
                typer.echo(_row(name, chats, Path(scratch) / "index"))


def _row(name: str, chats: Chats, folder: Path) -> str:
    label, build, _ = LAYOUTS[name]
    started = time.perf_counter()
    build(folder, chats)
    seconds = time.perf_counter() - started
    files = [path for path in folder.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    command = [sys.executable, __file__, name, str(folder), str(len(chats))]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    told = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    found = statistics.mean(
        len(set(ids) & set(_exact(*chats[chat], question(number)))) / max(1, min(K, len(chats[chat][0])))
        for number, (chat, ids) in enumerate(told["answers"])
    )
    shutil.rmtree(folder.with_name("view"), ignore_errors=True)
    return (
        f"| {len(chats):,} | {label} | {seconds:.1f} | {size / 1e6:.0f} | {len(files):,} | {told['open']:.2f} | {told['first']:.1f} | "
        f"{told['touch'][0]:.1f} / {told['touch'][1]:.1f} | {told['warm'][0]:.1f} / {told['warm'][1]:.1f} | {told['rss']:.0f} | {found:.1%} |"
    )


def _exact(ids: Sequence[str], vectors: Vectors, asked: Vectors) -> list[str]:
    import numpy as np

    return [ids[row] for row in np.argsort(-(vectors @ asked), kind="stable")[:K]]


def _made_up(number: int, vectors: int) -> Iterator[tuple[str, tuple[list[str], Vectors]]]:
    import numpy as np

    random = np.random.default_rng(5)
    for chat in range(number):
        made = random.standard_normal((vectors // number, DIMENSIONS)).astype(np.float32)
        ids = [f"t{chat}-{row}:user#1" for row in range(len(made))]
        yield str(chat), (ids, made / np.linalg.norm(made, axis=1, keepdims=True))


def question(number: int) -> Vectors:
    """The n-th seeded question, a unit vector."""
    import numpy as np

    made = np.random.default_rng(1_000_000 + number).standard_normal(DIMENSIONS).astype(np.float32)
    return cast("Vectors", made / np.linalg.norm(made))


def read(name: str, folder: Path, number: int) -> dict[str, Any]:
    """In a process of its own: open, touch, ask again and again; seconds, milliseconds and megabytes."""
    started = time.perf_counter()
    reader = LAYOUTS[name][2](folder)
    opened = time.perf_counter() - started
    step = max(1, number // TOUCHED)
    chats = [str(chat) for chat in range(0, number, step)][:TOUCHED]
    first, *touches = [_milliseconds(reader, chat, place) for place, chat in enumerate(chats)]
    warm = [_milliseconds(reader, chats[place % len(chats)], place) for place in range(WARM)]
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    answers = [
        (chats[place % len(chats)], reader.ids(chats[place % len(chats)], question(place))) for place in range(COMPARED)
    ]
    return {
        "open": opened,
        "first": first,
        "touch": _percentiles(touches or [first]),
        "warm": _percentiles(warm),
        "rss": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "answers": answers,
    }


def _milliseconds(reader: Reader, chat: str, place: int) -> float:
    asked = question(place)
    started = time.perf_counter()
    reader.ids(chat, asked)
    return (time.perf_counter() - started) * 1000


def _percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
