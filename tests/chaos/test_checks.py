"""A few rounds of each check that scripts/chaos carries out at length (scripts/chaos --only NAME --rounds 200)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness.report import load_all, prove

pytestmark = pytest.mark.chaos

#: Check, rounds, and how many faults there are at least. More are a matter of chance or of rights.
AT_LEAST = [
    pytest.param("corruption", 4, 81, id="a_damaged_release_is_refused_and_chroma_never_asked"),
    pytest.param("talk", 25, 1, id="every_message_is_answered_though_everything_is_killed"),
]
#: Check, rounds to ask for, and exactly so many rounds (None: any number) and faults (None: any number).
EXACTLY = [
    pytest.param("calls", 2, 2, None, id="a_failing_call_ends_the_night_with_a_code_of_ours_and_is_mended"),
    pytest.param("kills", 3, 3, None, id="nights_killed_at_random_times_lose_and_double_nothing"),
    pytest.param("network", 2, None, 3, id="a_night_that_loses_redis_at_a_request_is_mended_by_the_next"),
    pytest.param("network-day", 1, None, 9, id="a_script_of_the_day_that_is_cut_and_repeated_happens_once"),
    pytest.param("pairs", 3, None, 6, id="a_second_death_in_the_mending_run_is_mended_too"),
]


@pytest.mark.parametrize(("check", "rounds", "least"), AT_LEAST)
def test_at_least(tmp_path: Path, check: str, rounds: int, least: int) -> None:
    found = prove(check, tmp_path, rounds=rounds)
    assert found.faults >= least, found.notes


@pytest.mark.parametrize(("check", "rounds", "all_rounds", "faults"), EXACTLY)
def test_exactly(tmp_path: Path, check: str, rounds: int, all_rounds: int | None, faults: int | None) -> None:
    found = prove(check, tmp_path, rounds=rounds)
    assert all_rounds in (None, found.rounds), found.notes
    assert faults in (None, found.faults), found.notes


def test_no_check_is_left_out() -> None:
    tried = {str(param.values[0]) for param in [*AT_LEAST, *EXACTLY]}
    assert tried == set(load_all())
