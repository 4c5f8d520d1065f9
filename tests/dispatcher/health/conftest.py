"""A sound installation after a night, for the tests of `hmem doctor`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from tests.support.day.health import redis_server, url_of
from tests.support.world import REAL_CLAUDE, World

WITHOUT_VECTORS = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """Redis as the README wants it."""
    with redis_server(tmp_path_factory.mktemp("durable"), "--appendonly", "yes", "--save", "") as client:
        yield client


@pytest.fixture(scope="module")
def after_a_night(tmp_path_factory: pytest.TempPathFactory, durable: Redis) -> tuple[Path, bytes]:
    """The memory directory after a night without vectors, and what the night left in Redis."""
    made = World(tmp_path_factory.mktemp("night"), durable, url_of(durable), WITHOUT_VECTORS)
    made.say("t1", "the boiler code is 4711")
    made.night()
    return made.root, cast(bytes, durable.get("hcli:mem:night:last"))


@pytest.fixture
def host(tmp_path: Path, durable: Redis, after_a_night: tuple[Path, bytes]) -> World:
    """A sound installation after a night, without vectors (its commands are quicker) and with the real Claude CLI."""
    durable.flushall()
    night, last = after_a_night
    shutil.copytree(night, tmp_path, symlinks=True, dirs_exist_ok=True)
    (tmp_path / "state").mkdir()
    durable.set("hcli:mem:night:last", last)
    made = World(tmp_path, durable, url_of(durable))
    made.environment = WITHOUT_VECTORS | {"CLAUDE_BIN": str(REAL_CLAUDE), "ANTHROPIC_API_KEY": "test"}
    return made
