"""A Redis whose users have the rights of deploy/redis-users.acl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.support.redis.users import Guarded
from tests.support.world import World


@pytest.fixture
def admin(guarded: Guarded) -> Iterator[Redis]:
    """Empties Redis and the log of refusals."""
    client = guarded.client("tester")
    client.flushall()
    client.acl_log_reset()
    yield client
    client.close()


@pytest.fixture
def installed(tmp_path: Path, admin: Redis, guarded: Guarded) -> Iterator[World]:
    """An installation whose commands run as the dispatcher unless told otherwise."""
    world = World(tmp_path, admin, guarded.urls["dispatcher"])
    world.environment = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}
    yield world
    for dispatcher in world.dispatchers:
        dispatcher.stop(9)
