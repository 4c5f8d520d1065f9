"""Dates in words, in the language that is spoken now. The order of day, month and year and the form of the month are part of each text."""

from __future__ import annotations

from datetime import date, datetime
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_days import end_of_day
from shared.text.translations import later, tr

_DATES = (
    later("{day} January {year}"),
    later("{day} February {year}"),
    later("{day} March {year}"),
    later("{day} April {year}"),
    later("{day} May {year}"),
    later("{day} June {year}"),
    later("{day} July {year}"),
    later("{day} August {year}"),
    later("{day} September {year}"),
    later("{day} October {year}"),
    later("{day} November {year}"),
    later("{day} December {year}"),
)
_WEEKDAYS = (
    later("Monday"),
    later("Tuesday"),
    later("Wednesday"),
    later("Thursday"),
    later("Friday"),
    later("Saturday"),
    later("Sunday"),
)


def long_date(day: date) -> str:
    """`20 November 2026`."""
    return tr(_DATES[day.month - 1]).format(day=day.day, year=day.year)


def long_date_with_weekday(day: date) -> str:
    """`Friday 20 November 2026`."""
    return tr("{weekday} {date}").format(weekday=weekday_name(day.weekday()), date=long_date(day))


def weekday_name(number: int) -> str:
    """Monday is 0."""
    return tr(_WEEKDAYS[number])


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
