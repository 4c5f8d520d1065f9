"""Dates in words, in the language that is spoken now. A translation has the order of day, month and year, and the form of the months in a date."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_days import end_of_day
from shared.text.translations import later, tr

# translators: as in "5 January 2026"
_MONTHS = later("January, February, March, April, May, June, July, August, September, October, November, December")
_WEEKDAYS = later("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday")


def long_date(day: date) -> str:
    """`20 November 2026`."""
    month = tr(_MONTHS).split(", ")[day.month - 1]
    return tr("{day} {month} {year}").format(day=day.day, month=month, year=day.year)


def long_date_with_weekday(day: date) -> str:
    """`Friday 20 November 2026`."""
    return tr("{weekday} {date}").format(weekday=weekday_name(day.weekday()), date=long_date(day))


def weekday_name(number: int) -> str:
    """Monday is 0."""
    return tr(_WEEKDAYS).split(", ")[number]


def date_at(timestamp: float, zone: ZoneInfo) -> str:
    """`20 November 2026`, of a moment in POSIX seconds."""
    return long_date(datetime.fromtimestamp(timestamp, zone).date())


def day_shown(at: float, now: float, zone: ZoneInfo) -> str:
    """`Friday 27 November 2026, 17:00 (tomorrow)`, of a moment in POSIX seconds; the end of a day without its time."""
    local = datetime.fromtimestamp(at, zone)
    text = long_date_with_weekday(local.date())
    if int(at) != end_of_day(local.date(), zone):
        text = tr("{date}, {time}").format(date=text, time=f"{local:%H:%M}")
    days = (local.date() - datetime.fromtimestamp(now, zone).date()).days
    if days not in (0, 1):
        return text
    return (tr("{date} (tomorrow)") if days else tr("{date} (today)")).format(date=text)


def exact_text(at: float, zone: ZoneInfo) -> str:
    """`Monday 30 November 2026, 09:00 (Europe/Berlin)`; of an hour that comes twice also which of the two."""
    local = datetime.fromtimestamp(at, zone)
    twice = local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
    return tr("{date}, {time} ({zone})").format(
        date=long_date_with_weekday(local.date()),
        time=f"{local:%H:%M}",
        zone=f"{zone.key}, {local:%Z}" if twice else zone.key,
    )
