"""How much a remembered fact matters now."""

from __future__ import annotations

import math

import pytest

from dispatcher.memory.relevance import relevance
from tests.support.day.store_rows import DAY, NOW, fact


def of(distance: float, age: float = 0.0, count: int = 0, importance: int = 5, accessed: float | None = None) -> float:
    memory = fact("x", created=NOW - age * DAY, last_accessed=accessed, access_count=count, importance=importance)
    return relevance(memory, 1 - distance, NOW)


def test_likeness_age_use_and_importance_are_multiplied() -> None:
    assert (of(0.0), of(0.5), of(0, 30), of(0, 60)) == (1, 0.75, 0.5, 0.25)
    assert of(0, 900, accessed=NOW - 15 * DAY) == pytest.approx(math.sqrt(0.5))
    assert of(0, count=9) == pytest.approx(1 + 0.1 * math.log(10))
    assert [of(0, importance=rank) for rank in range(1, 6)] == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])
    assert of(1.0, 30, 1, 1) == pytest.approx(0.5 * 0.5 * (1 + 0.1 * math.log(2)) * 0.6)
    assert of(-0.001) == 1, "a rounding error"
    assert of(0, -1) == 1, "of another clock"
