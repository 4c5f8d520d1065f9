"""Ways to store the vectors of many chats in PostgreSQL with pgvector: one table or partitions, with a graph (HNSW) or without.

    filter      one table with a graph over all chats; a search filters by chat, with iterative scan; the planner chooses between the graph
                and the index on the chat
    graph       the same, and the planner may take the graph only
    partitions  a partition for each chat, each with a graph of its own
    hash        32 partitions by the hash of the chat, with an index on the chat and no graph
    exact       one table with an index on the chat and no graph

Vectors are half precision, seeded, around topics that the chats share. Each way gets the same rows in the same order, mixed over the chats
as nights bring them, in one transaction, then `new` more. A search asks for the K nearest of a chat, on a warm server.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector
from psycopg import sql

if TYPE_CHECKING:
    from shared.embedding.models import Vectors

DIMENSIONS, TOPICS, K, QUESTIONS, PARTITIONS = 384, 200, 50, 200, 32
#: Way -> what the table is partitioned by, and whether it has a graph.
WAYS = {
    "filter": ("", True),
    "graph": ("", True),
    "partitions": ("list", True),
    "hash": ("hash", False),
    "exact": ("", False),
}
#: More partitions than these take minutes to make and plan, and that is what there is to know.
MOST_PARTITIONS = 10_000
_SEARCH = (
    "SELECT chunk_id, - (embedding <#> %(asked)s) FROM rows WHERE chat = %(chat)s AND since <= 2 AND (until IS NULL OR until > 2) "
    "ORDER BY embedding <#> %(asked)s LIMIT %(k)s"
)
_WHOLE = "SELECT chunk_id, - (embedding <#> %(asked)s) FROM rows WHERE chat = %(chat)s AND since <= 2 AND (until IS NULL OR until > 2)"


@dataclass(frozen=True)
class Figures:
    way: str
    fill_seconds: float
    add_seconds: float
    megabytes: float
    search_ms: tuple[float, float]  # median and 99th percentile
    whole_ms: float  # median, of all similarities of a chat
    recall: float


@dataclass(frozen=True)
class MadeUp:
    """Row n is of chat `chats[n]`; the last `new` rows come a night later."""

    chats: Sequence[str]
    vectors: Vectors
    asked: Vectors
    asked_in: Sequence[str]


def made_up(chats: int, vectors: int, new: int) -> MadeUp:
    draw = np.random.default_rng(0)
    topics = draw.standard_normal((TOPICS, DIMENSIONS))

    def around(count: int) -> Any:
        made = topics[draw.integers(TOPICS, size=count)] + 1.5 * draw.standard_normal((count, DIMENSIONS))
        return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)

    names = [f"chat-{number}" for number in range(chats)]
    of = [names[number] for number in draw.integers(chats, size=vectors + new)]
    asked_in = [names[number] for number in draw.integers(chats, size=QUESTIONS)]
    return MadeUp(of, around(vectors + new), around(QUESTIONS), asked_in)


def measure(url: str, way: str, made: MadeUp, new: int) -> Figures:
    """In a database that holds nothing else; the table is gone afterwards."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        connection.execute("SET maintenance_work_mem = '1GB'")
        connection.execute("DROP TABLE IF EXISTS rows")
        old = len(made.chats) - new
        started = time.perf_counter()
        _create(connection, way, sorted(set(made.chats)))
        _fill(connection, made, range(old), 1)
        _index(connection, way)
        filled = time.perf_counter()
        connection.execute("VACUUM (ANALYZE) rows")
        begun = time.perf_counter()
        _fill(connection, made, range(old, len(made.chats)), 2)
        added = time.perf_counter()
        connection.execute("VACUUM (ANALYZE) rows")
        searches, whole, recall = _ask(connection, way, made)
        size = _size(connection)
        connection.execute("DROP TABLE rows")
    return Figures(way, filled - started, added - begun, size, searches, whole, recall)


def _create(connection: psycopg.Connection[Any], way: str, chats: Sequence[str]) -> None:
    by, _ = WAYS[way]
    clause = sql.SQL(f" PARTITION BY {by} (chat)" if by else "")
    ids = 'chat text COLLATE "C" NOT NULL, chunk_id text COLLATE "C" NOT NULL'
    columns = f"{ids}, since int NOT NULL, until int, embedding halfvec({DIMENSIONS}) NOT NULL"
    connection.execute(sql.SQL(f"CREATE TABLE rows ({columns})") + clause)
    if by == "list":
        for number, chat in enumerate(chats):
            connection.execute(
                sql.SQL(f"CREATE TABLE rows_{number} PARTITION OF rows FOR VALUES IN ({{}})").format(chat)
            )
    if by == "hash":
        for number in range(PARTITIONS):
            connection.execute(
                f"CREATE TABLE rows_{number} PARTITION OF rows FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})".encode()
            )


def _index(connection: psycopg.Connection[Any], way: str) -> None:
    connection.execute("CREATE UNIQUE INDEX ON rows (chat, chunk_id, since)")
    if WAYS[way][1]:
        connection.execute("CREATE INDEX ON rows USING hnsw (embedding halfvec_ip_ops)")


def _fill(connection: psycopg.Connection[Any], made: MadeUp, rows: range, since: int) -> None:
    command = "COPY rows (chat, chunk_id, since, embedding) FROM STDIN WITH (FORMAT BINARY)"
    with connection.transaction(), connection.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types(["text", "text", "int4", "halfvec"])
        for row in rows:
            copy.write_row((made.chats[row], f"{made.chats[row]}/{row}", since, HalfVector(made.vectors[row])))


def _ask(connection: psycopg.Connection[Any], way: str, made: MadeUp) -> tuple[tuple[float, float], float, float]:
    connection.execute("SET hnsw.iterative_scan = strict_order")
    if way == "graph":
        connection.execute("SET enable_sort = off")
    chats, times, right = np.array(made.chats), list[float](), list[float]()
    for repeat in range(2):  # the first time warms
        times.clear()
        for vector, chat in zip(made.asked, made.asked_in, strict=True):
            started = time.perf_counter()
            found = connection.execute(_SEARCH, {"asked": HalfVector(vector), "chat": chat, "k": K}).fetchall()
            times.append((time.perf_counter() - started) * 1000)
            if repeat:
                own = np.flatnonzero(chats == chat)
                best = own[np.argsort(-(made.vectors[own] @ vector))[:K]]
                right.append(len({f"{chat}/{row}" for row in best} & {one for one, _ in found}) / max(1, len(best)))
    whole = list[float]()
    for vector, chat in zip(made.asked[:50], made.asked_in, strict=False):
        started = time.perf_counter()
        connection.execute(_WHOLE, {"asked": HalfVector(vector), "chat": chat}).fetchall()
        whole.append((time.perf_counter() - started) * 1000)
    return (statistics.median(times), float(np.percentile(times, 99))), statistics.median(whole), float(np.mean(right))


def _size(connection: psycopg.Connection[Any]) -> float:
    query = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname ~ '^rows(_[0-9]+)?$'"
    row = connection.execute(query).fetchone()
    return float(row[0]) / 1e6 if row else 0.0


@contextmanager
def _server(url: str | None) -> Iterator[str]:
    """An empty database: a new one on this server, or on a PostgreSQL of our own."""
    if url:
        yield url
        return
    from tests.support.stores import postgresql_server

    with postgresql_server() as server:
        yield server.database()


def compare(chats: Sequence[int], vectors: int, new: int, ways: Sequence[str], url: str | None) -> None:
    with _server(url) as place:
        for count in chats:
            made = made_up(count, vectors, new)
            print(f"{count} chats, {vectors:,} vectors of {DIMENSIONS} dimensions and {new:,} new, {K} nearest")
            for way in ways:
                if WAYS[way][0] == "list" and count > MOST_PARTITIONS:
                    continue
                one = measure(place, way, made, new)
                print(
                    f"{way:10} fill {one.fill_seconds:7.1f} s, add {one.add_seconds:6.2f} s, {one.megabytes:6.0f} MB, search "
                    f"{one.search_ms[0]:7.2f} ms (p99 {one.search_ms[1]:7.2f}), whole chat {one.whole_ms:7.2f} ms, recall {one.recall:.3f}",
                    flush=True,
                )
