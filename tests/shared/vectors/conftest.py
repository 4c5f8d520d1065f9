"""What every index's tests share."""

from __future__ import annotations

import pytest

from shared.vectors import on_server, searching
from shared.vectors.redis import index as redis_index
from tests.support.night.index_world import MadeUp


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server is as slow as the machine: only who tests one that hangs waits for less."""
    for module in (on_server, redis_index):
        monkeypatch.setattr(module, "DAY_SECONDS", 60.0)


@pytest.fixture
def embedder(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()
    monkeypatch.setattr(searching, "open_embedder", lambda settings: made)
    return made
