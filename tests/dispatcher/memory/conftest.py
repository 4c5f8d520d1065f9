"""The memory of a day, with the shipped model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from dispatcher.memory.day.memory import DayMemory
from shared.config.settings import load_settings


@pytest.fixture
def day(tmp_path: Path) -> Iterator[DayMemory]:
    places = {"hmem_state_dir": tmp_path / "state", "hmem_memory_dir": tmp_path / "memory"}
    with closing(DayMemory(load_settings(**places, embedder="local", memory_deadline_ms=20_000), nullcontext)) as made:
        made.open()
        yield made
