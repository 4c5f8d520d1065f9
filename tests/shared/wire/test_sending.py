"""A task that asks Redis can be cancelled at any moment; redis-py's own connections swallow that now and then (Python 3.11)."""

from __future__ import annotations

import asyncio

import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError

from shared.wire.client import Policy, open_async_redis


async def ends(url: str, moment: int) -> bool:
    """Whether a task that asks without end is gone after it was cancelled `moment` rounds of the event loop into its work."""
    client = open_async_redis(url, Policy(answer=60, connect=60))

    async def asking() -> None:
        while True:
            await client.get("any")

    await client.ping()
    task = asyncio.create_task(asking())
    for _ in range(moment):
        await asyncio.sleep(0)
    task.cancel()
    ended, living = await asyncio.wait([task], timeout=60)
    while living:  # swallowed: until one is not
        task.cancel()
        _, living = await asyncio.wait([task], timeout=0.01)
    await client.aclose()
    return bool(ended)


def test_a_cancellation_is_never_swallowed(redis: Redis, redis_url: str) -> None:
    redis.set("any", 1)
    assert [moment for moment in range(1, 30) if not asyncio.run(ends(redis_url, moment))] == []


def test_the_limit_still_holds(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis that takes nothing."""

    async def sent(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    async def sending() -> None:
        client = open_async_redis(redis_url, Policy(answer=0.2, connect=0.2, retries=0))
        try:
            await client.ping()
            monkeypatch.setattr("redis.asyncio.connection.AbstractConnection.send_packed_command", sent)
            await client.get("any")
        finally:
            await client.aclose()

    with pytest.raises(RedisTimeoutError):
        asyncio.run(sending())
