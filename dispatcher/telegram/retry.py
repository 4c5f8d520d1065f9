"""Trying again, for as long as it takes: Redis and Telegram come back, and what was accepted waits for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import redis
import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from dispatcher.telegram.client import Flood, PolledElsewhere, TelegramError, Unauthorized, Unreachable

log = structlog.get_logger()

#: Seconds between two tries at most, and while another process polls with the same token.
LONGEST_SECONDS = 30
ELSEWHERE_SECONDS = 5

Value = TypeVar("Value")

_backing_off = wait_random_exponential(multiplier=0.2, max=LONGEST_SECONDS)


async def until_redis_answers(call: Callable[[], Awaitable[Value]]) -> Value:
    """Every call here may be repeated (each is one script, or reads)."""
    return await _until(call, redis.RedisError, TimeoutError)


async def until_telegram_takes_it(call: Callable[[], Awaitable[Value]]) -> Value:
    """Ends with the answer, or with an error that another try would not change."""
    return await _until(call, Flood, Unreachable)


async def until_telegram_answers(call: Callable[[], Awaitable[Value]]) -> Value:
    """The same for what concerns no chat: there is nothing that could be refused but the token."""
    return await _until(call, TelegramError)


async def _until(call: Callable[[], Awaitable[Value]], *passing: type[BaseException]) -> Value:
    async for attempt in AsyncRetrying(
        retry=_PassingUnlessUnauthorized(passing), wait=_wait, before_sleep=_say, reraise=True
    ):
        with attempt:
            return await call()
    raise AssertionError("the retries above do not end")


class _PassingUnlessUnauthorized(retry_if_exception_type):
    def __call__(self, retry_state: RetryCallState) -> bool:
        return super().__call__(retry_state) and not isinstance(_error(retry_state), Unauthorized)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: RetryCallState) -> float:
    error = _error(state)
    if isinstance(error, Flood):
        return error.seconds
    return ELSEWHERE_SECONDS if isinstance(error, PolledElsewhere) else _backing_off(state)


def _say(state: RetryCallState) -> None:
    error, seconds = _error(state), round(state.upcoming_sleep, 1)
    if isinstance(error, PolledElsewhere):
        log.error("another process polls with this token, or a webhook is set; stop it", again_in=seconds)
    elif isinstance(error, TelegramError):
        log.warning("Telegram does not take it now, trying again", error=str(error), again_in=seconds)
    else:
        log.error("Redis does not answer, trying again", error=str(error), again_in=seconds)
