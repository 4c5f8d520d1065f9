"""The other second copy: replicas of Redis, which are asked after each answer whether they have it (REDIS_WAIT). No answer waits for that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog
from redis import RedisError
from redis.asyncio import Redis

from shared.wire import keys

log = structlog.get_logger()

#: Seconds between two lines of the log about missing replicas.
TELL_SECONDS = 600.0


class ReplicaWait:
    """`wanted`: how many replicas; `missed` is called for each answer that fewer have confirmed in time."""

    def __init__(self, client: Redis, wanted: int, milliseconds: int, missed: Callable[[], None]) -> None:
        self._redis, self._wanted, self._milliseconds, self._missed = client, wanted, milliseconds, missed
        self._tasks: set[asyncio.Task[None]] = set()
        self._told = 0.0

    def after_answer(self) -> None:
        """Ask in the background."""
        if self._wanted:
            task = asyncio.create_task(self._ask())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def settled(self) -> None:
        """All questions so far are answered."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _ask(self) -> None:
        """A write on the same connection, so that WAIT means everything before it; replicas follow in order."""
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.hset(keys.JOURNAL, keys.WAITED, str(time.time()))
                pipe.execute_command("WAIT", self._wanted, self._milliseconds)
                confirmed, why = int((await pipe.execute())[1]), ""
        except (RedisError, OSError) as error:
            confirmed, why = 0, str(error)
        if confirmed < self._wanted:
            self._missed()
            if time.monotonic() - self._told > TELL_SECONDS:
                self._told = time.monotonic()
                log.error(
                    "replicas of Redis have not confirmed an answer",
                    wanted=self._wanted,
                    confirmed=confirmed,
                    reason=why,
                )
