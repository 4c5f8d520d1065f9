"""Redis with the search module (Redis 8, Redis Stack): an index of its own for each release (server.py), in place of a file.

The index is made before its hashes: Redis indexes each as it comes in, and removes with an index (FT.DROPINDEX DD) what is indexed there.
By day nothing is retried, for the lookup has a deadline; by night every request is one that may be made twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from tenacity import (
    Retrying,
    retry_if_exception,
    retry_if_result,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
)

from shared.config.settings import Settings
from shared.embedding.models import EmbeddingIdentity
from shared.errors import IndexServerUnavailable, ReleaseRefused, SettingsError
from shared.ranking.question import Match
from shared.release.parts import Earlier
from shared.vectors.base import Checked, Corpus, refuse_without_library
from shared.vectors.on_server import (
    DAY_SECONDS,
    NIGHT_SECONDS,
    SELF_CHECK_EVERY,
    Served,
    ServedBackend,
    first_line,
    is_left_over,
    new_name,
    read_served,
    write_served,
)
from shared.vectors.redis.server import RedisIndex, connected, plain_errors, rows_of
from shared.wire import keys

if TYPE_CHECKING:
    from shared.embedding.models import Vectors
    from shared.vectors.redis.server import Row

T = TypeVar("T")

#: Raise it when the same vectors would be stored in another way.
LAYOUT = 1
#: Hashes in one request: with 384 dimensions somewhat under 1 MB.
BATCH_ROWS = 500
#: How often a request of the night is made, and how long Redis has until all that it was given is indexed.
ATTEMPTS, INDEXING_SECONDS = 5, 120.0
#: A cosine below which a stored vector is not itself.
SAME = 0.999
#: The oldest module that has what is used here: 2.6.0.
LEAST_MODULE = 20_600


class RedisBackend(ServedBackend):
    """Searches the index of one release. Threads share the client, each with a connection of its own while it asks."""

    name = "redis"
    errors = (redis.RedisError, OSError)

    def __init__(self, settings: Settings, release: Path, indexed_with: EmbeddingIdentity | None) -> None:
        super().__init__(settings, release, indexed_with)
        self._client: redis.Redis | None = None
        self._index: RedisIndex | None = None

    def _connect(self, served: Served) -> None:
        client = self._client = connected(self._settings, DAY_SECONDS)
        index = RedisIndex(client, served, DAY_SECONDS)
        if difference := index.difference(index.info()):
            raise ReleaseRefused(
                f"release {self._release.name} has its vectors in the Redis index {served.name}, where the server has {difference}. "
                "Run the night again"
            )
        self._index = index

    def _nearest(self, vector: Vectors, chat_id: str, k: int) -> list[Match]:
        index = self._index
        return index.nearest(vector, chat_id, k) if index is not None else []

    def _close_index(self) -> None:
        self._index = None
        if self._client is not None:
            self._client.close()
            self._client = None


class RedisBuilder:
    """Builds a new index for each release; what an earlier one holds is sent again, for Redis copies no index."""

    def __init__(self, settings: Settings, run: int) -> None:
        self._settings, self._run = settings, run

    def refuse_unless_usable(self) -> None:
        refuse_without_library("redis")
        with self._client(DAY_SECONDS) as client:
            _refuse_server(client)

    def version(self) -> str:
        return f"redis, layout {LAYOUT}"

    def build(self, place: Path, corpus: Corpus, earlier: Earlier | None = None) -> None:  # noqa: ARG002
        served = Served(new_name(self._settings.index_name, self._run), len(corpus), corpus.dimensions)
        with self._client(NIGHT_SECONDS) as client:
            _patiently(RedisIndex(client, served, NIGHT_SECONDS).create)
            rows = rows_of(served.name, corpus)
            while batch := list(islice(rows, BATCH_ROWS)):
                _patiently(partial(_send, client, batch))
        write_served(place, served)

    def check(self, place: Path, scratch: Path, corpus: Corpus, earlier: Earlier | None = None) -> Checked:  # noqa: ARG002
        served = read_served(place)
        with self._client(NIGHT_SECONDS) as client:
            index = RedisIndex(client, served, NIGHT_SECONDS)
            _check_indexed(index, served, len(corpus))
            _check_hashes(client, rows_of(served.name, corpus))
            return Checked({chat: _check_chat(index, chat, *given) for chat, given in corpus.chats.items()})

    def follow(self, place: Path) -> None:
        with self._client(NIGHT_SECONDS) as client:
            _patiently(partial(client.ft(read_served(place).name).aliasupdate, self._settings.index_name))

    def left_over(self, named: Collection[str], newest: int | None = None) -> list[str]:
        with self._client(NIGHT_SECONDS) as client:
            return sorted(name for name in _listed(client) if self._is_left(name, named, newest))

    def sweep(self, named: Collection[str], newest: int | None = None) -> list[str]:
        """Indexes, and hashes without an index: those that Redis had not indexed yet when their index was dropped."""
        with self._client(NIGHT_SECONDS) as client:
            listed = _listed(client)
            gone = {name for name in listed if self._is_left(name, named, newest)}
            for name in gone:
                client.ft(name).dropindex(delete_documents=True)
            kept = {*named, *listed} - gone
            return sorted(
                gone | _unlink_left(client, lambda name: name not in kept and self._is_left(name, named, newest))
            )

    def _is_left(self, name: str, named: Collection[str], newest: int | None) -> bool:
        return is_left_over(name, self._settings.index_name, named, newest)

    @contextmanager
    def _client(self, seconds: float) -> Iterator[redis.Redis]:
        """A client for the night; what it raises as an IndexServerUnavailable, whose text has no address and so no password."""
        client = connected(self._settings, seconds)
        try:
            with plain_errors():
                yield client
        except redis.RedisError as error:
            raise _unavailable(error) from error
        finally:
            client.close()


def _unavailable(error: redis.RedisError) -> IndexServerUnavailable:
    reason = f"{type(error).__name__}: {first_line(error)}"
    if _passes(error):
        return IndexServerUnavailable(
            f"The Redis that stores vectors (REDIS_STACK_URL, REDIS_URL if unset) does not answer ({reason}). "
            "Check that it runs and that its address is right, then run the night again."
        )
    return IndexServerUnavailable(
        f"The Redis that stores vectors (REDIS_STACK_URL, REDIS_URL if unset) refuses a command of the night ({reason}). "
        "Check that it has memory left and that this user has the right, then run the night again."
    )


def _refuse_server(client: redis.Redis) -> None:
    """SettingsError unless vectors can be indexed on this server, and stay there."""
    if client.get_connection_kwargs().get("db"):
        raise SettingsError(
            "REDIS_STACK_URL (REDIS_URL if unset) names another database than 0, but Redis indexes only database 0. Let it end in /0."
        )
    modules: Mapping[str, Any] = client.info("modules")
    versions = [int(one["ver"]) for one in modules.get("modules", ()) if one["name"] in ("search", "searchlight")]
    if not versions or max(versions) < LEAST_MODULE:
        raise SettingsError(
            "NIGHT_INDEXES names redis, and the Redis of REDIS_STACK_URL (REDIS_URL if unset) has no search module, or one before 2.6. "
            "Run Redis 8 or Redis Stack there, or remove redis from NIGHT_INDEXES."
        )
    memory: Mapping[str, Any] = client.info("memory")
    if (policy := str(memory["maxmemory_policy"])).startswith("allkeys"):
        raise SettingsError(
            f"The Redis of REDIS_STACK_URL (REDIS_URL if unset) has maxmemory-policy {policy}: when its memory is full, it silently deletes "
            "vectors. On that server run redis-cli CONFIG SET maxmemory-policy noeviction, then redis-cli CONFIG REWRITE."
        )


def _patiently(call: Callable[[], T]) -> T:
    """Retry if the connection broke or no answer came in time; only for idempotent calls."""
    again = Retrying(
        retry=retry_if_exception(_passes),
        wait=wait_exponential(0.1, max=5.0),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    return again(call)


def _passes(error: BaseException) -> bool:
    """Whether a later attempt may succeed. A wrong password will stay wrong, though the client calls it an error of the connection."""
    passing = isinstance(error, redis.ConnectionError | redis.TimeoutError)
    return passing and not isinstance(error, redis.AuthenticationError)


def _send(client: redis.Redis, rows: Sequence[Row]) -> None:
    with client.pipeline(transaction=False) as pipe:
        for key, fields in rows:
            pipe.hset(key, mapping=fields)  # type: ignore[arg-type]
        pipe.execute()


def _check_indexed(index: RedisIndex, served: Served, wanted: int) -> None:
    """Redis has indexed as many rows as were given, in the form that was asked for."""
    waiting = Retrying(
        retry=retry_if_result(lambda info: _may_still_come(info, wanted)),
        wait=wait_exponential(0.02, max=1.0),
        stop=stop_after_delay(INDEXING_SECONDS),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    info: dict[str, Any] | None = waiting(partial(_patiently, index.info))
    failures = int(info["hash_indexing_failures"]) if info else 0
    difference = index.difference(info) or (
        f"{served.vectors} of {wanted} vectors" if served.vectors != wanted else None
    )
    if difference or failures or _may_still_come(info, wanted):
        raise ReleaseRefused(
            f"Of the index {served.name} Redis has {difference or 'all rows'}, and {failures} rows that it could not index. "
            "Check the server's log, then run the night again."
        )


def _may_still_come(info: Mapping[str, Any] | None, wanted: int) -> bool:
    """Whether Redis is not done with indexing, or has not counted all yet."""
    if info is None or int(info["hash_indexing_failures"]):
        return False
    return bool(int(info["indexing"])) or float(info["percent_indexed"]) < 1 or int(info["num_docs"]) < wanted


def _check_hashes(client: redis.Redis, rows: Iterator[Row]) -> None:
    """Each row is stored as it was given, byte for byte."""
    names = ("chat", "chat_id", "chunk_id", "vector")
    while batch := list(islice(rows, BATCH_ROWS)):
        stored = _patiently(partial(_fetch, client, [key for key, _ in batch], names))
        for (key, fields), found in zip(batch, stored, strict=True):
            if found != [_encoded(fields[name]) for name in names]:
                raise ReleaseRefused(f"Redis has another row under {key} than was given to it. Run the night again.")


def _fetch(client: redis.Redis, wanted: Sequence[str], names: Sequence[str]) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for key in wanted:
            pipe.hmget(key, names)
        return pipe.execute()


def _encoded(value: str | float | bytes) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8")


def _check_chat(index: RedisIndex, chat_id: str, ids: Sequence[str], vectors: Vectors) -> int:
    """How many rows the chat has in the index: as many as were given, and every SELF_CHECK_EVERY-th finds itself."""
    counted = _patiently(partial(index.count, chat_id))
    if counted != len(ids):
        raise ReleaseRefused(f"Redis has {counted} of {len(ids)} vectors of a chat. Run the night again.")
    for row in range(0, len(ids), SELF_CHECK_EVERY):
        best = _patiently(partial(index.nearest, vectors[row], chat_id, 1))
        if not best or best[0].score < SAME:
            raise ReleaseRefused(f"Redis does not find the vector of chunk {ids[row]}. Run the night again.")
    return counted


def _listed(client: redis.Redis) -> list[str]:
    """All indexes there, of whomever."""
    return [_text(name) for name in client.execute_command("FT._LIST")]  # type: ignore[no-untyped-call]


def _unlink_left(client: redis.Redis, is_left: Callable[[str], bool]) -> set[str]:
    """Remove hashes whose index is left over and gone; the names of those indexes."""
    gone: set[str] = set()
    start = keys.vectors("")
    found = client.scan_iter(match=f"{start}*", count=1000)
    while batch := [_text(key) for key in islice(found, BATCH_ROWS)]:
        owners = {key: key.removeprefix(start).rpartition(":")[0] for key in batch}
        left = [key for key, name in owners.items() if is_left(name)]
        if left:
            client.unlink(*left)
            gone |= {owners[key] for key in left}
    return gone


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
