"""The days of a chat."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from dispatcher.features.web.chat_data import calendar


def test_a_month_begins_with_its_first_day_and_the_newest_is_first() -> None:
    months = calendar([0.0, 86_400.0 * 40, 86_400.0 * 41, 86_400.0 * 41 + 1], ZoneInfo("UTC"))
    assert [*months] == ["1970-02", "1970-01"]
    assert months["1970-02"] == {"1970-02-10": 1, "1970-02-11": 2}
    assert calendar([], ZoneInfo("UTC")) == {}
