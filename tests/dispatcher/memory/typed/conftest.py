"""A store of memories, and a dispatcher that acts on tags."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.memories import Memories
from tests.support.day.acting import Host


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Memories]:
    database = Database(None, tmp_path / "state")
    yield Memories(database)
    database.close()


@pytest.fixture
def host(tmp_path: Path, embedder: DayEmbedder) -> Iterator[Host]:
    made = Host(tmp_path, embedder)
    yield made
    made.database.close()
