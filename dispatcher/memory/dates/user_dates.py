"""Dates to come that a person gives to a command: read by coming_times.py, or refused in the chat's language."""

from __future__ import annotations

import re
from contextlib import suppress
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.coming_times import ambiguous, languages_tried, read_coming, take_clock
from shared.errors import InvalidInput
from shared.text.dates.named_times import read_times
from shared.text.format import one_line, shorten
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


def deadline_of(text: str, now: float, zone: ZoneInfo) -> float:
    """The future moment (POSIX seconds) that a text names; InvalidInput, in the chat's language, if it is not a date, ambiguous or in the past."""
    found = read_coming(text, now, zone, loosely=True)
    if found is not None and found.at > now:
        return found.at
    quoted = shorten(one_line(text), QUOTED)
    past = found.at if found else _past(text, now, zone)
    if past is not None and past <= now:
        raise InvalidInput(tr(PAST).format(text=quoted, day=day_shown(past, now, zone), forms=tr(AHEAD)))
    raise InvalidInput(tr(AMBIGUOUS if ambiguous(text) else UNKNOWN).format(text=quoted, forms=tr(AHEAD)))


def goal_deadline(kind: str, text: str, now: float, zone: ZoneInfo) -> float:
    """The same for a memory of this type; InvalidInput also unless it is a goal."""
    if kind != "goal":
        raise InvalidInput(f"A {kind} has no deadline. Leave it out, or make it a goal.")
    return deadline_of(text, now, zone)


def _past(text: str, now: float, zone: ZoneInfo) -> float | None:
    """When the past time was that a text names, and nothing else; None for any other text."""
    for language in languages_tried():
        with suppress(ValueError):  # an hour that no day has
            times = read_times(take_clock(one_line(text).lower(), language)[0], now, zone, language)
            if times.spans and not re.search(r"\w", times.beside):
                return times.spans[0][0]
    return None
