"""Whether Claude still answers: the times of the first and the last error since its last answer, of all dispatchers together, in Redis."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Sequence
from typing import Any, cast

import structlog
from redis import RedisError
from redis.asyncio import Redis

from shared.wire import keys

log = structlog.get_logger()

#: Seconds of errors only that are an alarm. One error and nobody who asks again is none.
ALARM_SECONDS = 900.0
#: Seconds that noting an outcome may take.
NOTE_SECONDS = 2.0


async def note_outcome(client: Redis, *, failed: bool) -> None:
    """Note an answer, or an error in its place. It raises nothing: an alarm is worth less than an answer."""
    try:
        async with asyncio.timeout(NOTE_SECONDS):
            if not failed:
                await client.delete(keys.CLAUDE_ERRORS)
                return
            now = f"{time.time():.3f}"
            await cast(Awaitable[Any], client.hsetnx(keys.CLAUDE_ERRORS, "first", now))
            await cast(Awaitable[Any], client.hset(keys.CLAUDE_ERRORS, "last", now))
    except (RedisError, TimeoutError) as error:
        log.warning("whether Claude answers cannot be noted", error=str(error) or "no answer")


def errors_since(values: Sequence[bytes | None]) -> tuple[float, float] | None:
    """(first, last) error in POSIX seconds, from the fields of that name, if there have been errors only for ALARM_SECONDS; else None."""
    try:
        first, last = (float(value or b"") for value in values)
    except ValueError:
        return None
    return (first, last) if math.isfinite(first) and last - first >= ALARM_SECONDS else None
