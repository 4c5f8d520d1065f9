"""A dispatcher, and a client that does what h-cli's bot does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from redis import Redis

from tests.support.day.hcli_bot import Bot
from tests.support.world import Dispatcher, World


@pytest.fixture
def bot(redis: Redis) -> Bot:
    return Bot(redis)


@pytest.fixture
def dispatcher(light: World) -> Iterator[Dispatcher]:
    running = light.start_dispatcher()
    yield running
    assert running.stop() == 0
