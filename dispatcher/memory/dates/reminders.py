"""When a chat is reminded of a goal, and in which words. Pure functions.

A goal for a day is reminded of at REMIND_AT the day before; one that was made later than that in the morning of its day, or, if that is over
too, at REMIND_AT of the day itself. A goal with a time of day is reminded of an hour before; where that would be in the night, at REMIND_AT the
day before, if it was known by then. One that was made within its last hour is reminded of when it is due. What is made later than all of
these has just been talked about: nobody is reminded of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_days import end_of_day, instant
from shared.text.dates.calendar_words import WORDS
from shared.text.format import one_line, shorten

#: The morning of a goal's day; REMIND_AT itself if that is earlier.
MORNING = time(9)
#: Nobody is woken before this time of day by a goal that was known the evening before.
QUIET_UNTIL = time(8)
#: Seconds before a goal with a time of day.
AHEAD_SECONDS = 3_600.0
#: The longest time from a reminder to its deadline: the day before from its beginning, an hour more where the clocks go back. Seconds.
EARLIEST_SECONDS = 49 * 3_600.0
#: The longest that a goal is quoted.
QUOTED = 300
#: A chat's newest turns whose language counts.
TURNS_LOOKED_AT = 20


def reminder_time(deadline: float, made: float, zone: ZoneInfo, remind_at: time) -> float | None:
    """When to remind of a goal (POSIX seconds, as its deadline and when it was made); None for a goal that was made too late for any reminder."""
    due = datetime.fromtimestamp(deadline, zone)
    day, before = due.date(), due.date() - timedelta(1)
    evening_before = instant(before, remind_at, zone)
    if int(deadline) == end_of_day(day, zone):
        times = [evening_before, instant(day, min(MORNING, remind_at), zone), instant(day, remind_at, zone)]
    else:
        hour_before = deadline - AHEAD_SECONDS
        ahead = datetime.fromtimestamp(hour_before, zone)
        early = ahead.time() < QUIET_UNTIL or ahead.date() < day
        times = [*([evening_before] if early else []), hour_before, deadline]
    return next((at for at in times if at > made), None)


class _Words(NamedTuple):
    """`due` and `over` take {text} and {when}; `date` takes {weekday}, {day}, {month} and {year}."""

    due: str
    over: str
    date: str
    today: str
    tomorrow: str


_WORDS: Mapping[str, _Words] = {
    "en": _Words(
        "Reminder: “{text}” is due {when}.",
        "Reminder: “{text}” was due {when}.",
        "{weekday} {day} {month} {year}",
        "today",
        "tomorrow",
    ),
    "de": _Words(
        "Erinnerung: „{text}“ ist fällig am {when}.",
        "Erinnerung: „{text}“ war fällig am {when}.",
        "{weekday}, {day}. {month} {year}",
        "heute",
        "morgen",
    ),
    "fr": _Words(
        "Rappel : « {text} », pour le {when}.",
        "Rappel : « {text} », c'était pour le {when}.",
        "{weekday} {day} {month} {year}",
        "aujourd'hui",
        "demain",
    ),
    "es": _Words(
        "Recordatorio: «{text}», para el {when}.",
        "Recordatorio: «{text}», era para el {when}.",
        "{weekday} {day} de {month} de {year}",
        "hoy",
        "mañana",
    ),
    "ru": _Words(
        "Напоминание: «{text}». Срок: {when}.",
        "Напоминание: «{text}». Срок прошёл: {when}.",
        "{weekday}, {day} {month} {year} года",
        "сегодня",
        "завтра",
    ),
}


def reminder_text(text: str, deadline: float, now: float, zone: ZoneInfo, language: str) -> str:
    """`Reminder: “call the bank” is due Friday 27 November 2026, 17:00 (tomorrow).`, in one of the five languages."""
    words = _WORDS[language]
    said = words.over if deadline < now else words.due
    return said.format(text=shorten(one_line(text), QUOTED), when=when_text(deadline, now, zone, language))


def when_text(deadline: float, now: float, zone: ZoneInfo, language: str) -> str:
    """`Friday 27 November 2026`, with the time unless it is the end of that day, and whether that is today or tomorrow."""
    words, names, due = _WORDS[language], WORDS[language], datetime.fromtimestamp(deadline, zone)
    day, today = due.date(), datetime.fromtimestamp(now, zone).date()
    said = words.date.format(
        weekday=names.weekdays[day.weekday()], day=day.day, month=names.months[day.month - 1], year=day.year
    )
    if int(deadline) != end_of_day(day, zone):
        said += f", {due:%H:%M}"
    near = {0: f" ({words.today})", 1: f" ({words.tomorrow})"}
    return said + near.get((day - today).days, "")


def language_of_reminder(text: str, recent: Iterable[str]) -> str:
    """The language (ISO 639-1) that most of a chat's newest questions are in, of which these are the texts, else that of the goal, else English."""
    from shared.text.language import detect

    known = [found for found in map(detect, recent) if found is not None and found in _WORDS]
    if known:
        return max(known, key=known.count)
    found = detect(text) or ""
    return found if found in _WORDS else "en"
