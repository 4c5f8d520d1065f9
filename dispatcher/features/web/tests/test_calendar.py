"""The days of a chat."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from random import Random
from zoneinfo import ZoneInfo

import pytest

from dispatcher.features.web.chat_data import calendar


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Havana", "Pacific/Apia"])
def test_each_turn_counts_on_its_day_even_where_a_clock_changes_at_midnight(zone: str) -> None:
    chance, place = Random(3), ZoneInfo(zone)
    around = (day * 86_400 + 1800 * chance.randrange(48) for day in range(5_000, 20_000))
    times = sorted(max(0.0, at + shift) for at in around for shift in (-0.001, 0.0, chance.uniform(0, 90_000)))
    wanted = Counter(datetime.fromtimestamp(at, place).strftime("%Y-%m-%d") for at in times)
    found = {day.date: day.turns for days in calendar(times, place).values() for day in days}
    assert found == wanted


def test_a_month_begins_with_its_first_day_and_the_newest_is_first() -> None:
    months = calendar([0.0, 86_400.0 * 40, 86_400.0 * 41, 86_400.0 * 41 + 1], ZoneInfo("UTC"))
    assert [*months] == ["1970-02", "1970-01"]
    assert [(day.date, day.turns) for day in months["1970-02"]] == [("1970-02-10", 1), ("1970-02-11", 2)]
    assert calendar([], ZoneInfo("UTC")) == {}
