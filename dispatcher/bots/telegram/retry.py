"""Retries: Redis and Telegram come back, and what was accepted waits for them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import redis
import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from dispatcher.bots.telegram.errors import Flood, PolledElsewhere, TelegramError, Unauthorized, Unreachable

log = structlog.get_logger()

#: Most seconds between two attempts, and the seconds between them while another process polls with the same token.
LONGEST_SECONDS = 30
ELSEWHERE_SECONDS = 5
#: Most seconds between two attempts of what nobody waits for.
UNHURRIED_SECONDS = 3_600

Value = TypeVar("Value")


async def until_redis_answers(call: Callable[[], Awaitable[Value]]) -> Value:
    """Repeat the call until Redis answers. Every call may be repeated: each is one script, or only reads."""
    return await _until(call, redis.RedisError, TimeoutError)


async def until_telegram_takes_it(call: Callable[[], Awaitable[Value]], attempts: float = math.inf) -> Value:
    """Returns the answer, or raises an error that another attempt would not change, or that of the last one."""
    return await _until(call, Flood, Unreachable, attempts=attempts)


async def when_telegram_has_time(call: Callable[[], Awaitable[Value]]) -> Value:
    """As until_telegram_takes_it, for what nobody waits for: with up to an hour between two attempts."""
    return await _until(call, Flood, Unreachable, longest=UNHURRIED_SECONDS)


async def until_telegram_answers(call: Callable[[], Awaitable[Value]]) -> Value:
    """The same for calls that concern no chat: there only the token can be refused."""
    return await _until(call, TelegramError)


async def _until(
    call: Callable[[], Awaitable[Value]],
    *passing: type[BaseException],
    longest: float = LONGEST_SECONDS,
    attempts: float = math.inf,
) -> Value:
    backing_off = wait_random_exponential(multiplier=0.2, max=longest)
    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, passing) and not isinstance(error, Unauthorized)),
        stop=lambda state: state.attempt_number >= attempts,
        wait=lambda state: _wait(state, backing_off),
        before_sleep=_log_retry,
        reraise=True,
    )

    async def called() -> Value:  # tenacity awaits nothing but coroutine functions
        return await call()

    return await retrying(called)


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: RetryCallState, backing_off: wait_random_exponential) -> float:
    error = _error(state)
    if isinstance(error, Flood):
        return error.seconds
    return ELSEWHERE_SECONDS if isinstance(error, PolledElsewhere) else backing_off(state)


def _log_retry(state: RetryCallState) -> None:
    error, seconds = _error(state), round(state.upcoming_sleep, 1)
    if isinstance(error, PolledElsewhere):
        log.error("another process polls with this token, or a webhook is set; stop or remove it", again_in=seconds)
    elif isinstance(error, TelegramError):
        log.warning("Telegram does not accept a request now, trying again", error=str(error), again_in=seconds)
    else:
        log.error("Redis does not answer, trying again", error=str(error), again_in=seconds)
