"""Nights with a clock that lies, and after days without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_order_follows_run_numbers_whatever_the_clock_says(tmp_path: Path) -> None:
    found = prove("clock", tmp_path, rounds=1)
    assert found.rounds > 8, found.notes
