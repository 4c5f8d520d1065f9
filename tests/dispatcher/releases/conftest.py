"""A client that does what h-cli's bot does."""

from __future__ import annotations

import pytest
from redis import Redis

from tests.support.day.hcli_bot import Bot


@pytest.fixture
def bot(redis: Redis) -> Bot:
    return Bot(redis)
