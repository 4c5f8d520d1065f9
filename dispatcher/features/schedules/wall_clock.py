"""Moments that keep their wall clock: once at a local time, or again and again by a small rule, in a time zone. Pure functions.

A rule that repeats keeps its wall clock whatever the clocks do: 7:30 stays 7:30 (shared/text/dates/calendar_days.py: `instant`).
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import reduce
from typing import Self
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_days import instant
from shared.text.translations import tr
from shared.text.translations.dates import weekday_name

#: No rule has a longer way to its next day. Days.
_LONGEST_WAY = 70
_WORKDAYS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class RepeatRule:
    """Which days: every one, these days of the week (Monday is 0), or this day of the month (in shorter months the last day)."""

    weekdays: tuple[int, ...] = ()
    month_day: int = 0

    @classmethod
    def parse(cls, spelled: str) -> Self:
        """`daily`, `weekly:0,2` or `monthly:24`, as it is stored."""
        kind, _, numbers = spelled.partition(":")
        if kind == "monthly":
            return cls(month_day=int(numbers))
        return cls(tuple(map(int, numbers.split(","))) if numbers else ())

    def __str__(self) -> str:
        if self.month_day:
            return f"monthly:{self.month_day}"
        return f"weekly:{','.join(map(str, self.weekdays))}" if self.weekdays else "daily"

    def matches(self, day: date) -> bool:
        if self.month_day:
            return day.day == min(self.month_day, calendar.monthrange(day.year, day.month)[1])
        return not self.weekdays or day.weekday() in self.weekdays

    @property
    def in_words(self) -> str:
        """`every Monday and Thursday`."""
        if self.month_day:
            return tr("every month on day {day}").format(day=self.month_day)
        if self.weekdays == _WORKDAYS:
            return tr("every weekday")
        if not self.weekdays:
            return tr("every day")
        first, *others = map(weekday_name, self.weekdays)
        named = reduce(lambda some, one: tr("{some} and {one}").format(some=some, one=one), others, first)
        return tr("every {weekdays}").format(weekdays=named)


def next_moment(rule: RepeatRule, clock: time, zone: ZoneInfo, after: float) -> float:
    """The rule's first moment after this one (both POSIX seconds)."""
    day = datetime.fromtimestamp(after, zone).date() - timedelta(1)
    for ahead in range(_LONGEST_WAY):
        today = day + timedelta(ahead)
        if rule.matches(today) and (at := instant(today, clock, zone)) > after:
            return at
    raise ValueError(f"the rule {rule} has no next day")
