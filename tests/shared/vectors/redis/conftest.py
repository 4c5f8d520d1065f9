"""A real Redis 8 of the test module, and before it what passes on all but the faults that a test asks for (tests/servers/redis8.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from shared.config.settings import Settings, load_settings
from shared.vectors import searching
from tests.servers.redis8 import FaultyRedis, Redis8, redis8_server
from tests.support.night.index_world import MadeUp


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: MadeUp())


@pytest.fixture(scope="module")
def server() -> Iterator[Redis8]:
    with redis8_server() as running:
        yield running


@pytest.fixture
def looking(server: Redis8) -> Iterator[Redis]:
    """A connection of the test's own, to a server that is empty at first."""
    with Redis.from_url(server.url, decode_responses=True, protocol=2) as client:
        client.flushall()
        yield client


@pytest.fixture
def proxy(looking: Redis, server: Redis8) -> Iterator[FaultyRedis]:
    with FaultyRedis(server.url) as running:
        yield running


@pytest.fixture
def settings(proxy: FaultyRedis) -> Settings:
    return load_settings(redis_vectors_url=proxy.url)
