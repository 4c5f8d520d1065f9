"""A few rounds of kill -9 at random times; scripts/chaos --only kills --rounds 200 does more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_nights_killed_at_random_times_lose_and_double_nothing(tmp_path: Path) -> None:
    assert prove("kills", tmp_path, rounds=3).rounds == 3
