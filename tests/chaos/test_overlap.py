"""Two nights at once, stale nights and a stray rsync."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_one_night_wins_and_a_stale_one_changes_nothing(tmp_path: Path) -> None:
    found = prove("overlap", tmp_path, rounds=4)
    assert found.faults > 10, found.notes
