"""Ways to store the vectors of many chats in the vector sets of Redis 8.

    exact         a set for each chat, float32, the smallest graph; a search compares all vectors of it
    int8          the same, rounded as Redis does by default
    graph         a set for each chat, float32, with the graph that Redis makes by default, which the search walks
    filter-exact  one set with that graph, float32; a search compares all vectors, with a filter by chat
    filter        the same; the search walks the graph, with a filter by chat

Vectors are seeded, around topics that the chats share. A search asks for the K nearest of a chat, on a warm server, which is emptied for it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from redis import Redis

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

DIMENSIONS, TOPICS, K, QUESTIONS, BATCH = 384, 200, 50, 200, 500
SMALLEST = ("EF", 1, "M", 4)


@dataclass(frozen=True)
class Way:
    adding: tuple[Any, ...]
    searching: tuple[Any, ...] = ()
    one_set: bool = False


WAYS = {
    "exact": Way(("NOQUANT", *SMALLEST), ("TRUTH",)),
    "int8": Way(("Q8", *SMALLEST), ("TRUTH",)),
    "graph": Way(("NOQUANT",)),
    "filter-exact": Way(("NOQUANT",), ("TRUTH",), one_set=True),
    "filter": Way(("NOQUANT",), one_set=True),
}


@dataclass(frozen=True)
class MadeUp:
    """Row n is of chat `chats[n]`."""

    chats: Sequence[str]
    vectors: Vectors
    asked: Vectors
    asked_in: Sequence[str]


def made_up(chats: int, vectors: int) -> MadeUp:
    draw = np.random.default_rng(0)
    topics = draw.standard_normal((TOPICS, DIMENSIONS))

    def around(count: int) -> Any:
        made = topics[draw.integers(TOPICS, size=count)] + 1.5 * draw.standard_normal((count, DIMENSIONS))
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    names = [f"chat-{number}" for number in range(chats)]
    of = [names[number] for number in draw.integers(chats, size=vectors)]
    asked_in = [names[number] for number in draw.integers(chats, size=QUESTIONS)]
    return MadeUp(of, around(vectors), around(QUESTIONS), asked_in)


@dataclass(frozen=True)
class Figures:
    vectors: int  # that were stored within the limit
    fill_seconds: float
    bytes_each: float
    search_ms: tuple[float, float]  # median and 99th percentile
    recall: float


def measure(client: Redis, way: Way, made: MadeUp, limit: float) -> Figures:
    """On a server that holds nothing else; at most so many seconds of filling."""
    client.flushall()
    before, started = _memory(client), time.perf_counter()
    stored = _fill(client, way, made, started + limit)
    seconds = time.perf_counter() - started
    each = (_memory(client) - before) / stored
    searches, recall = _ask(client, way, made, stored)
    client.flushall()
    return Figures(stored, seconds, each, searches, recall)


def _memory(client: Redis) -> int:
    return int(client.info("memory")["used_memory"])


def _key(way: Way, chat: str) -> str:
    return "all" if way.one_set else chat


def _fill(client: Redis, way: Way, made: MadeUp, until: float) -> int:
    for first in range(0, len(made.chats), BATCH):
        if time.perf_counter() > until:
            return first
        with client.pipeline(transaction=False) as pipe:
            for row in range(first, min(first + BATCH, len(made.chats))):
                chat = made.chats[row]
                attribute = ("SETATTR", f'{{"chat": "{chat}"}}') if way.one_set else ()
                given = ("FP32", made.vectors[row].tobytes(), f"{chat}/{row}", *way.adding, *attribute)
                pipe.execute_command("VADD", _key(way, chat), *given)  # type: ignore[no-untyped-call]
            pipe.execute()
    return len(made.chats)


def _ask(client: Redis, way: Way, made: MadeUp, stored: int) -> tuple[tuple[float, float], float]:
    chats, times, right = np.array(made.chats[:stored]), list[float](), list[float]()
    for vector, chat in zip(made.asked, made.asked_in, strict=True):
        only = ("FILTER", f'.chat == "{chat}"') if way.one_set else ()
        asked = ("FP32", vector.tobytes(), "WITHSCORES", "COUNT", K, *way.searching, *only)
        started = time.perf_counter()
        found = client.execute_command("VSIM", _key(way, chat), *asked)  # type: ignore[no-untyped-call]
        times.append((time.perf_counter() - started) * 1000)
        own = np.flatnonzero(chats == chat)
        best = own[np.argsort(-(made.vectors[own] @ vector))[:K]]
        named = {one.decode() for one in found[::2]}
        right.append(len({f"{chat}/{row}" for row in best} & named) / max(1, len(best)))
    return (statistics.median(times), float(np.percentile(times, 99))), float(np.mean(right))


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    """This one, which is emptied, or one of our own."""
    if url:
        yield url
        return
    from tests.servers.redis8 import redis8_server

    with redis8_server() as server:
        yield server.url


def compare(chats: Sequence[int], vectors: int, ways: Sequence[str], limit: float, url: str | None) -> None:
    with _server(url) as place, Redis.from_url(place, protocol=2) as client:
        for count in chats:
            made = made_up(count, vectors)
            print(f"{count} chats, {vectors:,} vectors of {DIMENSIONS} dimensions, {K} nearest")
            for way in ways:
                one = measure(client, WAYS[way], made, limit)
                print(
                    f"{way:12} {one.vectors:9,} vectors in {one.fill_seconds:6.1f} s, {one.bytes_each:5.0f} bytes each, search "
                    f"{one.search_ms[0]:7.2f} ms (p99 {one.search_ms[1]:7.2f}), recall {one.recall:.3f}",
                    flush=True,
                )
