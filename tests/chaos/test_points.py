"""A few of the histories that scripts/chaos walks whole: death at a named point, and at two."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_a_death_at_a_point_is_mended_by_the_next_run(tmp_path: Path) -> None:
    assert prove("points", tmp_path, rounds=4).faults == 4


def test_a_second_death_in_the_mending_run_is_mended_too(tmp_path: Path) -> None:
    assert prove("pairs", tmp_path, rounds=3).faults == 6
