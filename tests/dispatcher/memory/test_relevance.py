"""How much a remembered fact matters now."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.memory.relevance import MINIMUM_SIMILARITY, Relevance, relevance

PROPERTY = settings(max_examples=100, deadline=None)
NOW = 1_707_500_000.0
DAY = 86_400.0

near = st.floats(0, 1.19)
days = st.floats(0, 3000)
counts = st.integers(0, 10_000)
ranks = st.integers(1, 5)


def of(
    distance: float, age: float = 0.0, count: int = 0, importance: int = 5, accessed: float | None = None
) -> Relevance:
    found = relevance(
        distance, now=NOW, created=NOW - age * DAY, accessed=accessed, access_count=count, importance=importance
    )
    assert found is not None
    return found


def test_the_factors_are_exactly_these() -> None:
    assert of(0.0) == Relevance(1.0, 1.0, 1.0, 1.0)
    assert of(0.5).similarity == 0.75
    assert of(0, 30).time == 0.5
    assert of(0, 60).time == 0.25
    assert of(0, 900, accessed=NOW - 15 * DAY).time == pytest.approx(math.sqrt(0.5))
    assert of(0, count=9).reinforcement == pytest.approx(1 + 0.1 * math.log(10))
    assert [of(0, importance=rank).importance for rank in range(1, 6)] == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])
    assert of(1.0, 30, 1, 1).score == pytest.approx(0.5 * 0.5 * (1 + 0.1 * math.log(2)) * 0.6)


@PROPERTY
@given(near, near, days, days, counts, counts, ranks, ranks)
def test_nearer_newer_oftener_and_weightier_is_never_less(
    d1: float, d2: float, a1: float, a2: float, c1: int, c2: int, r1: int, r2: int
) -> None:
    more = of(min(d1, d2), min(a1, a2), max(c1, c2), max(r1, r2))
    less = of(max(d1, d2), max(a1, a2), min(c1, c2), min(r1, r2))
    assert more.score >= less.score


@PROPERTY
@given(st.floats(0, 2))
def test_less_alike_than_the_minimum_is_not_remembered(distance: float) -> None:
    found = relevance(distance, now=NOW, created=NOW, accessed=None, access_count=0, importance=3)
    assert (found is None) == (1 - distance / 2 < MINIMUM_SIMILARITY)
