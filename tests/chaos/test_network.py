"""A few cut connections, broken transfers and silent hosts; scripts/chaos cuts every request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import prove

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize(
    ("check", "rounds", "faults"),
    [
        pytest.param("network", 2, 3, id="a_night_that_loses_redis_at_a_request_is_mended_by_the_next"),
        pytest.param("network-day", 1, 9, id="a_script_of_the_day_that_is_cut_and_repeated_happens_once"),
        pytest.param("redis-restart", 1, 1, id="redis_that_dies_in_mid_export_costs_a_night_at_most"),
        pytest.param("transfer", 1, 5, id="a_transfer_that_breaks_leaves_nothing_in_sight"),
        pytest.param("ssh", 1, 2, id="a_silent_day_host_ends_the_night_in_time"),
    ],
)
def test_a_broken_connection_loses_nothing(tmp_path: Path, check: str, rounds: int, faults: int) -> None:
    found = prove(check, tmp_path, rounds=rounds)
    assert found.faults == faults, found.notes
