"""Dates that a person gives to a command: read (to come: coming_times.py, past: named_times.py), or refused in the chat's language."""

from __future__ import annotations

import re
from datetime import date, datetime
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.coming_times import ambiguous, languages_tried, read_coming, take_clock
from shared.errors import InvalidInput
from shared.text.dates.calendar_days import instant, latest_date, midnight
from shared.text.dates.named_times import Times, read_times
from shared.text.format import one_line, shorten
from shared.text.times import moment
from shared.text.translations import later, tr
from shared.text.translations.dates import day_shown

#: The longest that a date is quoted.
QUOTED = 60
UNKNOWN = later('I do not understand the date "{text}". Write it like this: {forms}.')
PAST = later('"{text}" is in the past ({day}). Name a date in the future, for example: {forms}.')
AMBIGUOUS = later(
    '"{text}" means one day in America and another in Europe. Write the month as a word, or the year first: 3 December, 2026-12-03.'
)
# translators: examples that the program has to read: in a language other than de, es, fr, it, pt and ru, leave them in English
AHEAD = later("tomorrow, next Friday, in 3 days, 3 December, 3 December 15:00, end of month, 2026-12-03")
# translators: examples that the program has to read: in a language other than de, es, fr, it, pt and ru, leave them in English
BACK = later("yesterday, last Friday, 3 days ago, 3 November, 2026-11-03, 2026-11-03T14:00")
_DAY = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.?")
_LETTERS = re.compile(r"\w")
#: Words that may precede a time: "since last Friday".
_BESIDE = re.compile(
    r"\b(?:since|from|until|till|by|on|in|the|at|last|past|previous|seit|von|bis|am|depuis|le|la|desde|hasta|el|с|со|до|по|в|во|от|прошл\w+)\b"
)


def deadline_of(text: str, now: float, zone: ZoneInfo) -> float:
    """The future moment (POSIX seconds) that a text names; InvalidInput, in the chat's language, if it is not a date, ambiguous or in the past."""
    found = read_coming(text, now, zone, loosely=True)
    if found is not None and found.at > now:
        return found.at
    quoted = shorten(one_line(text), QUOTED)
    past = found.at if found else (span := _named(text, now, zone)) and span[0]
    if past is not None and past <= now:
        raise InvalidInput(tr(PAST).format(text=quoted, day=day_shown(past, now, zone), forms=tr(AHEAD)))
    raise InvalidInput(tr(AMBIGUOUS if ambiguous(text) else UNKNOWN).format(text=quoted, forms=tr(AHEAD)))


def goal_deadline(kind: str, text: str, now: float, zone: ZoneInfo) -> float:
    """The same for a memory of this type; InvalidInput also unless it is a goal."""
    if kind != "goal":
        raise InvalidInput(f"A {kind} has no deadline. Leave it out, or make it a goal.")
    return deadline_of(text, now, zone)


def read_since(text: str, now: float, zone: ZoneInfo) -> float:
    """POSIX seconds from which a search looks: the beginning of a day, week, …. InvalidInput if it is not a time."""
    return _span(text, now, zone, "--since")[0]


def read_until(text: str, now: float, zone: ZoneInfo) -> float:
    """POSIX seconds before which a search looks: the end of a day, week, …. InvalidInput if it is not a time."""
    return _span(text, now, zone, "--until")[1]


def _span(text: str, now: float, zone: ZoneInfo, option: str) -> tuple[float, float]:
    try:
        day = date.fromisoformat(text.strip())
    except ValueError:
        day = None
    try:
        exact = moment(text, zone) if day is None else None
    except ValueError:
        exact = None
    found = (exact, exact) if exact is not None else _named(day.isoformat() if day else text, now, zone)
    if found is None:
        quoted = shorten(one_line(text), QUOTED)
        raise InvalidInput(f"{option}: {tr(UNKNOWN).format(text=quoted, forms=tr(BACK))}")
    return found


def _named(text: str, now: float, zone: ZoneInfo) -> tuple[float, float] | None:
    """The time, today or earlier, if the words name exactly one and nothing else."""
    for language in languages_tried():
        try:
            words, clock, _ = take_clock(one_line(text).lower(), language)
        except ValueError:  # an hour that no day has
            continue
        times = _figures(words, now, zone) or read_times(words, now, zone, language)
        if len(times.spans) != 1 or _LETTERS.search(_BESIDE.sub("", times.beside)):
            continue
        if clock is None:
            return times.spans[0]
        at = instant(datetime.fromtimestamp(times.spans[0][0], zone).date(), clock, zone)
        return at, at
    return None


def _figures(words: str, now: float, zone: ZoneInfo) -> Times | None:
    """`3.11.`, the latest that is not after today."""
    match = _DAY.fullmatch(words)
    try:
        today = datetime.fromtimestamp(now, zone).date()
        days = match and latest_date(int(match["month"]), int(match["day"]), 0, today)
    except ValueError:
        return None
    return Times([(midnight(days[0], zone), midnight(days[1], zone))], False, "") if days else None
