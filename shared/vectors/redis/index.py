"""Redis 8: the vectors of a release in vector sets that all releases share (sets.py), in place of a file.

By night only rows are sent that no release has, each request being one that may be made twice. By day nothing is retried,
for the lookup has a deadline. The search is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import redis

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable, ReleaseRefused, SettingsError
from shared.vectors.base import Corpus, VectorIndex
from shared.vectors.on_server import (
    DAY_SECONDS,
    Served,
    ServedBackend,
    ServedBuilder,
    first_line,
)
from shared.vectors.redis import sets
from shared.vectors.redis.settings import RedisVectorSettings
from shared.wire.client import NIGHT, Policy, asking_once, open_redis

if TYPE_CHECKING:
    from shared.embedding.models import Vectors


# ── The Redis that stores vectors: how it is asked, what it must have, and what its errors mean.


def connected(settings: Settings, policy: Policy) -> redis.Redis:
    """A client, in RESP2, in which scores are a flat list."""
    url = settings.of(RedisVectorSettings).redis_vectors_url or settings.redis_url
    return open_redis(url, replace(policy, protocol=2))


def refuse_server(client: redis.Redis) -> None:
    """SettingsError unless vectors can be stored on this server, and stay there."""
    modules: Mapping[str, Any] = client.info("modules")
    if not any(one["name"] == "vectorset" for one in modules.get("modules", ())):
        server: Mapping[str, Any] = client.info("server")
        raise SettingsError(
            f"The Redis of REDIS_VECTORS_URL (REDIS_URL if unset) is {server['redis_version']} and has no vector sets, which the index redis "
            "needs. Run Redis 8.0 or newer there, or use another index (NIGHT_INDEXES, MEMORY_BACKEND)."
        )
    memory: Mapping[str, Any] = client.info("memory")
    if (policy := str(memory["maxmemory_policy"])).startswith("allkeys"):
        raise SettingsError(
            f"The Redis of REDIS_VECTORS_URL (REDIS_URL if unset) has maxmemory-policy {policy}: when its memory is full, it silently deletes "
            "vectors. On that server run redis-cli CONFIG SET maxmemory-policy noeviction, then redis-cli CONFIG REWRITE."
        )


def unavailable(error: redis.RedisError) -> IndexServerUnavailable:
    """What the night says; the client's errors have no address in them, and so no password."""
    away = isinstance(error, redis.ConnectionError | redis.TimeoutError)
    if away and not isinstance(error, redis.AuthenticationError):
        what, check = "does not answer", "it runs and that its address is right"
    else:
        what, check = "refuses a command of the night", "it has memory left and that this user has the right"
    return IndexServerUnavailable(
        f"The Redis that stores vectors (REDIS_VECTORS_URL, REDIS_URL if unset) {what} ({type(error).__name__}: {first_line(error)}). "
        f"Check that {check}, then run the night again."
    )


#: How far a number of a stored vector may be off: Redis makes its length 1 again.
ROUNDING = 1e-5


class RedisBackend(ServedBackend):
    """Searches the sets of one release. Threads share the client, each with a connection of its own while it asks."""

    name = "redis"
    errors = (redis.RedisError, OSError)

    def _connect(self, served: Served) -> tuple[redis.Redis, str]:
        client = connected(self._settings, asking_once(DAY_SECONDS))
        state = sets.state(client, served.name)
        if state != sets.totals(served):
            refuse_server(client)  # an older one has no vectors at all
            raise ReleaseRefused(
                f"release {self._release.name} has its vectors in Redis as {served.name}, which the server "
                f"{'does not have' if not state else 'has with other totals'}. Run the night again"
            )
        return client, served.name

    def _close_index(self, index: tuple[redis.Redis, str]) -> None:
        index[0].close()

    def _found(self, index: tuple[redis.Redis, str], vector: Vectors, chat_id: str) -> dict[str, float]:
        return dict(sets.scored(*index, chat_id, vector))


class RedisBuilder(ServedBuilder):
    """Builds the sets of a release beside those of the others; `sweep` removes a release that is not used, and what a dead attempt left."""

    def refuse_unless_usable(self) -> None:
        with self._client(asking_once(DAY_SECONDS)) as client:  # one that is away is found before anything is embedded
            refuse_server(client)

    def _put(self, served: Served, corpus: Corpus) -> None:
        with self._client() as client:
            sets.put(client, served, corpus)

    def _compare(self, served: Served, corpus: Corpus) -> int:
        """The vectors of all parts are compared with those given; a search reaches all."""
        with self._client() as client:
            if sets.state(client, served.name) != sets.totals(served):
                raise ReleaseRefused(f"Redis has no vectors {served.name}. Run the night again.")
            listed = sets.chats_of(client, served.name)
            if listed.keys() != corpus.chats.keys():
                raise ReleaseRefused("Redis lists other chats than it was given. Run the night again.")
            for chat_id, parts in listed.items():
                _check_chat(client, chat_id, parts, corpus)
        return 0

    def _names(self) -> list[str]:
        with self._client() as client:
            return sets.releases(client)

    def _remove(self, gone: Sequence[str]) -> None:
        with self._client() as client:
            sets.remove(client, gone)

    @contextmanager
    def _client(self, policy: Policy | None = None) -> Iterator[redis.Redis]:
        """A client for the night; what it raises as an IndexServerUnavailable."""
        try:
            with closing(connected(self._settings, policy or NIGHT)) as client:
                yield client
        except redis.RedisError as error:
            raise unavailable(error) from error


def _check_chat(client: redis.Redis, chat_id: str, parts: Sequence[sets.Part], corpus: Corpus) -> None:
    """The release lists the parts that the chat consists of, and each is stored as it was given."""
    ids, vectors = corpus.chats[chat_id]
    if parts != sets.parts_of(ids, vectors):
        raise ReleaseRefused("Redis lists other vectors of a chat than it was given. Run the night again.")
    for key, rows in sets.placed(chat_id, parts):
        count, found = sets.stored(client, key, ids[rows])
        if count != len(found):
            raise ReleaseRefused(f"Redis has {count} of {len(found)} vectors under {key}. Run the night again.")
        size = 4 * vectors.shape[1]
        numbers = np.frombuffer(b"".join(one if len(one) == size else bytes(size) for one in found), "<f4")
        # So is one that is not a number.
        wrong = ~(np.abs(numbers.reshape(len(found), -1) - vectors[rows]).max(axis=1) <= ROUNDING)
        if wrong.any():
            raise ReleaseRefused(
                f"Redis has another vector as chunk {ids[rows][int(wrong.argmax())]} than it was given. Remove all of them there "
                f"(redis-cli UNLINK {key}), then run the night again."
            )


INDEX = VectorIndex(RedisBuilder, RedisBackend)
