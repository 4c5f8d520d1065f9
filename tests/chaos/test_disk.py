"""Full disks, in coarse steps; without root there is nothing to mount, and the check says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


def test_a_full_disk_stops_the_night_and_never_the_answers(tmp_path: Path) -> None:
    found = prove("disk", tmp_path, rounds=1)
    assert found.faults == 0 or found.faults > 8, found.notes
