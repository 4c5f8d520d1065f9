"""The arithmetic of the calendar: days, weeks, months and their neighbours, and the moments at which days begin and end. Pure functions.

A month or weekday without a year or date is another one looking back (the latest) than looking ahead (the nearest to come), so those are two
functions. All raise ValueError or OverflowError for what no calendar has.
"""

from __future__ import annotations

import calendar
from datetime import date, datetime, time, timedelta, tzinfo

#: Half-open, in days of the chat's calendar.
Days = tuple[date, date]


def instant(day: date, clock: time, zone: tzinfo) -> float:
    """POSIX seconds of that local time, as calendars count (RFC 5545): the first of an hour that comes twice; one that the clocks leave out by the
    offset from before the gap, so 02:30 is 03:30."""
    return datetime.combine(day, clock.replace(fold=0), zone).timestamp()


def midnight(day: date, zone: tzinfo) -> float:
    """When a day begins there (POSIX seconds); days of 23 and 25 hours come out as they are."""
    return instant(day, time.min, zone)


def end_of_day(day: date, zone: tzinfo) -> float:
    """The last second of a day there (POSIX seconds)."""
    return midnight(day + timedelta(1), zone) - 1


def one_day(day: date) -> Days:
    """That day alone."""
    return day, day + timedelta(1)


def week(day: date) -> Days:
    """The week that a day is in, from Monday."""
    monday = day - timedelta(day.weekday())
    return monday, monday + timedelta(7)


def months(year: int, month: int, count: int = 1) -> Days:
    """So many calendar months from this one on; a month outside 1 to 12 belongs to the years beside."""
    (first_year, first), (end_year, end) = (divmod(year * 12 + number, 12) for number in (month - 1, month - 1 + count))
    return date(first_year, first + 1, 1), date(end_year, end + 1, 1)


def unit_of(unit: str, today: date, turn: int = 0) -> Days:
    """The day, week, month, quarter or year that today is in (turn is 0), or one so many before (negative) or after it."""
    if unit == "day":
        return one_day(today + timedelta(turn))
    if unit == "week":
        return week(today + timedelta(7 * turn))
    if unit == "month":
        return months(today.year, today.month + turn)
    if unit == "quarter":
        return months(today.year, 3 * ((today.month + 2) // 3 + turn) - 2, 3)
    return months(today.year + turn, 1, 12)


def latest_weekend(today: date, back: int = 0) -> Days:
    """The latest weekend that has begun; with `back` the latest that is over."""
    saturday = today - timedelta((today.weekday() - 5) % 7)
    if back and today.weekday() >= 5:
        saturday -= timedelta(7)
    return saturday, saturday + timedelta(2)


def latest_weekday(number: int, today: date) -> Days:
    """The latest such day before today; Monday is 0."""
    return one_day(today - timedelta((today.weekday() - number - 1) % 7 + 1))


def nearest_weekday(number: int, today: date, turn: int = 0) -> Days:
    """The first such day from today on; with `turn` 1 after today."""
    return one_day(today + timedelta((number - today.weekday() - turn) % 7 + turn))


def latest_month(month: int, year: int, today: date) -> Days:
    """That month; without a year (0) the latest that has begun."""
    return months(year or today.year - (month > today.month), month)


def nearest_month(month: int, year: int, today: date, turn: int = 0) -> Days:
    """That month; without a year (0) the one that is not over: a later one with `turn` 1."""
    return months(year or today.year + (month < today.month + turn), month)


def latest_date(month: int, day: int, year: int, today: date) -> Days:
    """That day; without a year (0) the latest that is not after today."""
    if year:
        return one_day(date(year, month, day))
    this = date(today.year, month, day)
    return one_day(this if this <= today else date(today.year - 1, month, day))


def nearest_date(month: int, day: int, today: date) -> Days:
    """That day of the nearest year, from today on, that has it (29 February is in leap years alone)."""
    leap = (month, day) == (2, 29)
    ahead = range(1 if (month, day) < (today.month, today.day) else 0, 9 if leap else 2)
    year = next((today.year + more for more in ahead if not leap or calendar.isleap(today.year + more)), 0)
    return one_day(date(year, month, day))


def nearest_day_of_month(number: int, today: date) -> Days:
    """The nearest month's, from today's on, that has such a day and where it is not over."""
    for ahead in range(13):
        first, end = months(today.year, today.month + ahead)
        if 1 <= number <= (end - first).days and (day := first.replace(day=number)) >= today:
            return one_day(day)
    raise ValueError(number)
