"""A few cut connections, broken transfers and silent hosts; scripts/chaos cuts every request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.report import prove

pytestmark = pytest.mark.chaos


def test_a_night_that_loses_redis_at_a_request_is_mended_by_the_next(tmp_path: Path) -> None:
    found = prove("network", tmp_path, rounds=2)
    assert found.faults == 3, found.notes


def test_a_script_of_the_day_that_is_cut_and_repeated_happens_once(tmp_path: Path) -> None:
    found = prove("network-day", tmp_path, rounds=1)
    assert found.faults == 9, found.notes


def test_redis_that_dies_in_mid_export_costs_a_night_at_most(tmp_path: Path) -> None:
    found = prove("redis-restart", tmp_path, rounds=1)
    assert found.faults == 1, found.notes


def test_a_transfer_that_breaks_leaves_nothing_in_sight(tmp_path: Path) -> None:
    found = prove("transfer", tmp_path, rounds=1)
    assert found.faults == 5, found.notes


def test_a_silent_day_host_ends_the_night_in_time(tmp_path: Path) -> None:
    found = prove("ssh", tmp_path, rounds=1)
    assert found.faults == 2, found.notes
