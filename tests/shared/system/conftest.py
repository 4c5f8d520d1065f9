"""An installation of three users."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.support.users import Installation


@pytest.fixture
def here(redis: Redis, redis_url: str) -> Iterator[Installation]:
    """Outside of /tmp, as a real one: pytest's directories there are root's alone, and the CLI may write in /tmp."""
    root = Path(tempfile.mkdtemp(prefix="hmem-users-", dir="/var/tmp"))
    made = Installation(root, redis, redis_url)
    made.prepare()
    yield made
    shutil.rmtree(root)
