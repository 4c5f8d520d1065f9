"""What is read in Redis, and what of it is to be removed, as the core and features find it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from redis import Redis, ResponseError

from shared.text.format import in_batches

#: Keys read in one call.
AT_ONCE = 500


@dataclass(frozen=True)
class RedisEntry:
    """Something to remove. `how`: "value" (a key with this value), "entry" (of a list), "field" (of a hash) or "key" (whatever its value).
    `texts`: words that the scan searches for afterwards."""

    layer: str
    key: bytes
    value: bytes
    how: str
    texts: tuple[str, ...] = ()
    name: bytes = b""  # of the field


class RedisReader:
    """Requires a client that returns bytes. Keys of another type than expected have nothing."""

    def __init__(self, client: Redis) -> None:
        self._redis: Any = client

    def scan(self, pattern: str) -> Iterator[tuple[bytes, bytes]]:
        """(key, value) of the strings under a pattern."""
        for names in in_batches(self._redis.scan_iter(match=pattern, count=1000), AT_ONCE):
            yield from ((key, raw) for key, raw in zip(names, self._redis.mget(names), strict=True) if raw is not None)

    def entries(self, key: str) -> list[bytes]:
        """Of a list."""
        try:
            return list(self._redis.lrange(key, 0, -1))
        except ResponseError:
            return []

    def fields(self, key: str) -> list[tuple[bytes, bytes]]:
        """Of a hash."""
        try:
            return list(self._redis.hgetall(key).items())
        except ResponseError:
            return []


def number_of(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
