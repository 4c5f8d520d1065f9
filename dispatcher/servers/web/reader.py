"""The memory of this host for the page: opened when it is first used, kept open, read by one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis

from dispatcher.memory.day.open_memory import OpenedMemory
from shared.config.settings import Settings
from shared.wire.client import COMMAND, open_redis


class Reader:
    """The same doors as the commands': `OpenedMemory` and a Redis client. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.redis: Redis = open_redis(settings.redis_url, COMMAND)
        self._lock = threading.Lock()
        self._memory: OpenedMemory | None = None
        self._forgotten: bytes | None = None

    @contextmanager
    def memory(self, *, vectors: bool = False) -> Iterator[OpenedMemory]:
        """With `vectors`, the embedder and the vectors of the release are open, too. A request waits for the one before it.

        After an `hmem forget` everything that was read is dropped first.
        """
        with self._lock:
            self._drop_if_forgotten()
            if self._memory is None:
                self._memory = OpenedMemory(self.settings)
            if vectors:
                self._memory.release()
                self._memory.open_vectors()
            yield self._memory

    def _drop_if_forgotten(self) -> None:
        from redis.exceptions import RedisError

        from shared.wire import keys

        try:
            mark = self.redis.get(keys.FORGOTTEN)
        except RedisError:
            return  # the tombstones on the disk hide it all the same
        if mark != self._forgotten:
            self._forgotten = mark  # type: ignore[assignment]
            self._close()

    def _close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def close(self) -> None:
        with self._lock:
            self._close()
        self.redis.close()
