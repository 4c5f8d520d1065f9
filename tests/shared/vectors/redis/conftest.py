"""A Redis with the search module. It cannot be had in every place, so a stand-in has its part, strict about the documented form of each command;
with HMEM_TEST_REDIS_STACK_URL what needs no fault runs against that server instead.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shared.config.settings import Settings, load_settings
from shared.vectors import searching
from tests.servers.redisearch import RediSearch
from tests.support.night.indexes.on_redis import Asked


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: Asked())


@pytest.fixture(scope="module")
def server() -> Iterator[RediSearch]:
    with RediSearch() as running:
        yield running


@pytest.fixture
def stand_in(server: RediSearch) -> Iterator[RediSearch]:
    """Empty, well, and at the end content with everything that was sent."""
    server.redis.flushall()
    server.touched([b"FLUSHALL"])
    server.log.clear()
    yield server
    server.faults, server.all_faults, server.busy = {}, None, 0
    complaints = server.complaints[:]
    server.complaints.clear()
    assert complaints == []


@pytest.fixture
def settings(stand_in: RediSearch) -> Settings:
    return load_settings(redis_stack_url=stand_in.url)
