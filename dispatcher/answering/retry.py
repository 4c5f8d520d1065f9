"""Calls to Redis are repeated until it answers: all of them may be repeated, and stopping would lose the task with this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import redis
import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential

log = structlog.get_logger()
Value = TypeVar("Value")

#: Errors of a Redis that is in trouble; any other error (a key of another type) would be the same next time.
_TROUBLE = ("OOM", "MISCONF", "READONLY", "LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN")


async def keep_trying(call: Callable[[], Awaitable[Value]]) -> Value:
    """Repeat until Redis answers; raises an error that another try would not change."""
    try:
        return await call()  # nearly always enough: the retry machinery costs more than the call
    except Exception as error:
        if not _may_pass(error):
            raise
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(_may_pass), wait=wait_exponential(0.2, max=10), before_sleep=_log_retry
    ):
        with attempt:
            return await call()
    raise AssertionError("the retries above do not end")


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, redis.ResponseError) and not isinstance(
        error, redis.exceptions.OutOfMemoryError | redis.ReadOnlyError
    ):
        return str(error).startswith(_TROUBLE)
    return isinstance(error, redis.RedisError)


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.error("Redis failed, trying again", error=str(error), attempt=state.attempt_number)
