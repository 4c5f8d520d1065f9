"""The files of messages: by hash, for a day, within a limit; what is not what its hash says is not there."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from unittest.mock import patch

import pytest
from redis import Redis

from shared.wire import keys, media
from shared.wire.client import BOT, open_async_redis
from shared.wire.media import FULL, MediaRefused, MediaStore

Value = TypeVar("Value")


def in_redis(url: str, work: Callable[[MediaStore], Awaitable[Value]], most: int = 1_000) -> Value:
    async def run() -> Value:
        client = open_async_redis(url, BOT)
        try:
            with patch.object(media, "LIMIT_BYTES", most):
                return await work(MediaStore(client))
        finally:
            await client.aclose()

    return asyncio.run(run())


@pytest.fixture
def redis(redis_url: str) -> Redis:
    client: Redis = Redis.from_url(redis_url)
    client.flushall()
    return client


def test_a_value_is_found_by_its_hash_for_a_day(redis: Redis, redis_url: str) -> None:
    name = in_redis(redis_url, lambda store: store.put(b"a picture"))
    assert name == hashlib.sha256(b"a picture").hexdigest()
    assert in_redis(redis_url, lambda store: store.get(name)) == b"a picture"
    assert 86_300 < int(redis.ttl(keys.media(name))) <= 86_400
    redis.set(keys.media(name), b"something else")
    assert in_redis(redis_url, lambda store: store.get(name)) is None
    assert in_redis(redis_url, lambda store: store.get("0" * 64)) is None
    assert in_redis(redis_url, lambda store: store.get("../x")) is None


def test_all_values_together_have_a_limit(redis: Redis, redis_url: str) -> None:
    for _ in range(3):  # the same counts once
        in_redis(redis_url, lambda store: store.put(b"x" * 600))
    with pytest.raises(MediaRefused, match=r"tomorrow"):
        in_redis(redis_url, lambda store: store.put(b"y" * 401))
    in_redis(redis_url, lambda store: store.put(b"y" * 400))
    assert len(redis.keys(keys.media("*"))) == 2
    assert FULL.endswith(".")
    redis.zadd(keys.MEDIA, {f"600:{hashlib.sha256(b'x' * 600).hexdigest()}": time.time() - 1})  # a day later
    in_redis(redis_url, lambda store: store.put(b"z" * 600))
