"""The Redis that stores vectors: how it is asked, what it must have, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import redis
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable, SettingsError
from shared.vectors.on_server import first_line
from shared.vectors.redis.settings import RedisVectorSettings
from shared.wire.client import asking_once, open_redis

T = TypeVar("T")

#: How often a request of the night is made.
ATTEMPTS = 5


def connected(settings: Settings, seconds: float) -> redis.Redis:
    """A client that waits no longer for one answer, and asks once; in RESP2, in which scores are a flat list."""
    policy = asking_once(seconds, connect=min(seconds, 5.0), protocol=2)
    return open_redis(settings.of(RedisVectorSettings).redis_vectors_url or settings.redis_url, policy)


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
    reason = f"{type(error).__name__}: {first_line(error)}"
    if _passes(error):
        return IndexServerUnavailable(
            f"The Redis that stores vectors (REDIS_VECTORS_URL, REDIS_URL if unset) does not answer ({reason}). "
            "Check that it runs and that its address is right, then run the night again."
        )
    return IndexServerUnavailable(
        f"The Redis that stores vectors (REDIS_VECTORS_URL, REDIS_URL if unset) refuses a command of the night ({reason}). "
        "Check that it has memory left and that this user has the right, then run the night again."
    )


def patiently(call: Callable[[], T]) -> T:
    """Retry if the connection broke or no answer came in time; only for calls that may be made twice."""
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
