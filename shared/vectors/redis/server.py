"""One index on a Redis server with the search module: its form, its hashes, and what is asked of it; the same by day and by night.

    <prefix of the index>:<n>   chat (a hash of the chat id), said_at, vector (float32), and as they are: chat_id, chunk_id

Every search is for one chat, so the index is FLAT and the policy ADHOC_BF: Redis goes through the chat's rows and no others, and compares
each, which is exact; the graph of an HNSW index would cost memory and never be walked. The field that is filtered by is a letter and a
sha256, so no chat id needs an escape and none is taken for a number; the chat id itself is compared on the way out. A search that takes
longer than Redis' own limit ends early with a part of the answer and without a word, so each names a limit above our socket's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import redis

from shared.config.settings import Settings
from shared.errors import ReleaseRefused
from shared.ranking.question import Match
from shared.vectors.base import Corpus
from shared.vectors.on_server import Served
from shared.wire import keys
from shared.wire.client import asking_once, open_redis

if TYPE_CHECKING:
    from redisvl.index import SearchIndex

    from shared.embedding.models import Vectors

    #: Key of a hash, and its fields.
    Row = tuple[str, dict[str, str | float | bytes]]


def tag_of(chat_id: str) -> str:
    return "c" + hashlib.sha256(chat_id.encode("utf-8")).hexdigest()


def rows_of(name: str, corpus: Corpus) -> Iterator[Row]:
    """The hashes of an index, always in the same order under the same keys."""
    prefix, number = keys.vectors(name), count()
    for chat_id, (ids, vectors) in corpus.chats.items():
        tag, said_at = tag_of(chat_id), corpus.said_at.get(chat_id)
        for row, chunk_id in enumerate(ids):
            fields: dict[str, str | float | bytes] = {"chat": tag, "chat_id": chat_id, "chunk_id": chunk_id}
            if said_at is not None:
                fields["said_at"] = float(said_at[row])
            yield f"{prefix}{next(number)}", fields | {"vector": as_bytes(vectors[row])}


def as_bytes(vector: Vectors) -> bytes:
    return vector.astype("<f4").tobytes()


def connected(settings: Settings, seconds: float) -> redis.Redis:
    """A client that waits no longer for one answer and asks once; in RESP2, whose replies are those of every version of the module."""
    policy = asking_once(seconds, connect=min(seconds, 5.0), protocol=2)
    return open_redis(settings.redis_stack_url or settings.redis_url, policy)


@contextmanager
def plain_errors() -> Iterator[None]:
    """redisvl wraps what the client raises; whoever handles errors of Redis need not know of it."""
    from redisvl.exceptions import RedisVLError

    try:
        yield
    except RedisVLError as error:
        cause = error.__cause__
        raise cause if isinstance(cause, redis.RedisError | OSError) else redis.RedisError(str(error)) from error


class RedisIndex:
    """The index of one release. Errors are those of the client. `seconds`: its socket's limit."""

    def __init__(self, client: redis.Redis, served: Served, seconds: float) -> None:
        from redisvl.index import SearchIndex
        from redisvl.schema import IndexSchema

        self._served, self._limit = served, int((seconds + 1.0) * 1000)
        vector = {"algorithm": "flat", "dims": self._dimensions, "distance_metric": "cosine", "datatype": "float32"}
        schema = IndexSchema.from_dict(
            {
                "index": {"name": served.name, "prefix": keys.vectors(served.name)},
                "fields": [
                    {"name": "chat", "type": "tag", "attrs": {"case_sensitive": True}},
                    {"name": "said_at", "type": "numeric", "attrs": {"sortable": True}},
                    {"name": "vector", "type": "vector", "attrs": vector},
                ],
            }
        )
        self._index: SearchIndex = SearchIndex(schema, redis_client=client)

    @property
    def _dimensions(self) -> int:
        """An index of nothing exists too: the alias can follow it."""
        return max(self._served.dimensions, 1)

    def create(self) -> None:
        """Make it, unless it is there: asked again, it changes nothing."""
        with plain_errors():
            self._index.create()

    def info(self) -> dict[str, Any] | None:
        """What Redis says of it; None if there is none of this name."""
        with plain_errors():
            return self._index.info() if self._index.exists() else None

    def difference(self, info: Mapping[str, Any] | None) -> str | None:
        """How it differs from what the release says of it, or None."""
        if info is None:
            return "no such index"
        if int(info["num_docs"]) != self._served.vectors:
            return f"{info['num_docs']} of {self._served.vectors} vectors"
        wanted = {"dim": str(self._dimensions), "distance_metric": "cosine", "data_type": "float32"}
        form = _vector_form(info)
        wrong = [name for name, value in wanted.items() if form.get(name) != value]
        return f"{wrong[0]} {form.get(wrong[0], 'unknown')}, not {wanted[wrong[0]]}" if wrong else None

    def nearest(self, vector: Vectors, chat_id: str, k: int) -> list[Match]:
        """The chat's k nearest, best first; ReleaseRefused if another chat's row is among them."""
        from redisvl.query import VectorQuery
        from redisvl.query.filter import Tag

        if not self._served.vectors:  # nor dimensions
            return []
        query = VectorQuery(
            vector=as_bytes(vector),
            vector_field_name="vector",
            return_fields=["chat_id", "chunk_id"],
            filter_expression=Tag("chat") == tag_of(chat_id),
            num_results=k,
            hybrid_policy="ADHOC_BF",
        )
        query.timeout(self._limit)
        with plain_errors():
            found = self._index.query(query)
        if any(row["chat_id"] != chat_id for row in found):
            raise ReleaseRefused(
                f"The Redis index {self._served.name} has a row of another chat among a chat's. Run the night again."
            )
        return [Match(row["chunk_id"], 1.0 - float(row["vector_distance"])) for row in found]

    def count(self, chat_id: str) -> int:
        """How many rows of the chat are indexed."""
        from redisvl.query import CountQuery
        from redisvl.query.filter import Tag

        query = CountQuery(filter_expression=Tag("chat") == tag_of(chat_id))
        query.timeout(self._limit)
        with plain_errors():
            counted: Any = self._index.query(query)
        return int(counted)


def _vector_form(info: Mapping[str, Any]) -> dict[str, str]:
    """How the vectors are indexed, as FT.INFO tells it: dim, distance_metric, data_type and others, all in lower case."""
    for field in info["attributes"]:
        told = {str(name).lower(): str(value).lower() for name, value in zip(field[::2], field[1::2], strict=False)}
        if told.get("identifier") == "vector":
            return told
    return {}
