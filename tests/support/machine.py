"""This machine as tests use it: how long a thing may take on it, and ports that nobody else has."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import pytest
from redis import Redis, RedisError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Until the condition holds; fails the test when the time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)
