"""A release of a night, and the same as a transfer leaves it."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from tests.support.world import World


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Path:
    """A release without vectors."""
    with closing(Redis.from_url(redis_url)) as client:
        client.flushall()
        without = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}
        world = World(tmp_path_factory.mktemp("night"), client, redis_url, without)
        world.say("t1", "the boiler code is 4711")
        world.night()
    return world.memory_dir / "releases" / "1"


@pytest.fixture
def brought(sound: Path, tmp_path: Path) -> Path:
    """A release as a transfer leaves it: `incoming/1.7` of a directory that has no release yet."""
    place = tmp_path / "receiving" / "incoming" / "1.7"
    shutil.copytree(sound, place)
    return place
