"""A short day of kill -9; scripts/chaos --only talk --rounds 500 is a long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_every_message_is_answered_though_everything_is_killed(tmp_path: Path) -> None:
    found = prove("talk", tmp_path, rounds=25)
    assert found.faults > 0
