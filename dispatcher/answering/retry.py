"""What is repeated: calls to Redis, until it answers (all of them may be repeated, and stopping would lose the task with this process); and what runs
in the background, for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import redis

from shared.errors import HmemError
from shared.text.logs import Logger

log = Logger()
Value = TypeVar("Value")

#: Errors of a Redis that is in trouble; any other error (a key of another type) would be the same next time.
_TROUBLE = ("OOM", "MISCONF", "READONLY", "LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN")

LONGEST_PAUSE_SECONDS = 10.0


async def keep_trying(call: Callable[[], Awaitable[Value]]) -> Value:
    """Repeat until Redis answers; raises an error that another try would not change."""
    pause = 0.2
    while True:
        try:
            return await call()
        except Exception as error:
            if not _may_pass(error):
                raise
            log.error("Redis failed, trying again", error=str(error), seconds=pause)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


async def look_again(name: str, look: Callable[[], Awaitable[float]], pause: float) -> None:
    """Runs until cancelled. A look returns the seconds until the next one; after one that failed these are `pause`. A reason that stays the same is
    logged once."""
    known = ""
    while True:
        seconds, reason = pause, ""
        try:
            seconds = await look()
        except (redis.RedisError, HmemError, OSError) as error:  # TimeoutError is an OSError
            reason = str(error) or type(error).__name__
            if reason != known:
                log.warning("what runs in the background must wait", what=name, reason=reason)
        except Exception:  # a defect of ours: the next look must come
            log.exception("what runs in the background failed", what=name)
        known = reason
        await asyncio.sleep(seconds)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, redis.ResponseError) and not isinstance(
        error, redis.exceptions.OutOfMemoryError | redis.ReadOnlyError
    ):
        return str(error).startswith(_TROUBLE)
    return isinstance(error, redis.RedisError)
