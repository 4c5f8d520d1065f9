"""When a reminder is due, as people write it: `tomorrow 9:00`, `in 20 minutes`, `every monday 8:00`, `jeden Tag um 7:30`, with its text beside.

Single times are coming_times.py's; here are the words for what repeats. Pure functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time
from itertools import chain
from zoneinfo import ZoneInfo

from dispatcher.features.schedules.wall_clock import RepeatRule, next_moment
from dispatcher.memory.dates.coming_times import MORNING, languages_tried, read_coming, take_clock
from dispatcher.memory.dates.user_dates import deadline_of
from shared.errors import InvalidInput
from shared.text.dates.calendar_words import WORDS, either, index_of
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import exact_text

#: The most words that a date has.
MOST_WORDS = 10
QUOTED = 60
HOW_OFTEN = later(
    'I do not understand how often "{text}" is. Write it like this: day 7:30, monday 8:00, weekday 9:00, month on 24 18:00, and then the text.'
)
NO_DATE = later('I do not understand the date "{text}".')
NO_TEXT = later("The text is missing. Write it like this: /remind tomorrow 9:00 buy bread.")
NO_QUESTION = later("The question is missing. Write it like this: /every monday 8:00 What is new in astronomy?")
NO_TIME = later('"{text}" is not a time of day. Write it like 9:00 or 21:30.')
OVER = later('"{text}" has already passed today ({day}). Name a time of day, or another day.')
PAST = later('"{text}" is in the past ({day}). Name a time in the future, for example: tomorrow 9:00, in 20 minutes.')
#: The longest text of which the beginning and the end are read. Characters.
_READ = 2_000


@dataclass(frozen=True)
class DueTime:
    """The next moment (POSIX seconds), and by which rule and wall clock it repeats, if it does."""

    at: float
    rule: RepeatRule | None = None
    clock: time = MORNING


_EVERY = r"(?:every|each|on every|jede[nrsm]?|tous les|toutes les|chaque|cada|todos los|todas las|ogni|tod[oa]s? [oa]s?|кажд(?:ый|ую|ое|ые)|по)\s+"
_DAILY = r"(?:daily|täglich|taeglich|quotidiennement|diariamente|ежедневно)"
_WORKDAY = (
    r"(?:weekdays?|work(?:ing )?days?|werktags?|arbeitstags?|jours? ouvrables?|d[ií]as? laborables?"
    r"|будн\w+(?: д\w+)?|рабоч\w+ д\w+)"
)
_DAY = r"(?:days?|tag|jours?|días?|dias?|giorn[oi]|день|дням)"
_MONTH = (
    r"(?:months?|monat|mois|mes(?:es)?|месяц)(?:\s+(?:on|am|le|el día|el dia|el))?(?:\s+(?:the|day))?\s+"
    r"(?P<day>[12]?\d|3[01])(?:st|nd|rd|th|\.|er|-?го)?(?:\s+числа)?"
)
_MONTHLY_FIRST = r"(?P<nth>[12]?\d|3[01])(?:st|nd|rd|th|\.)(?:\s+(?:of the month|des monats))?"
#: By language its weekdays, from Monday.
_WEEKDAY_FORMS = [
    [rf"(?:{form})s?\.?" for form in words[kind]] for kind in ("weekdays", "weekday_short") for words in WORDS.values()
]
_WEEKDAY = either(chain(*_WEEKDAY_FORMS))
_AND = r"(?:\s*,\s*|\s+)(?:(?:and|und|et|y|e|и)\s+)?(?:(?:every|on)\s+)?"
_WEEKDAYS = rf"(?P<weekdays>{_WEEKDAY}(?:{_AND}{_WEEKDAY})*)"
_RULE = rf"(?P<workdays>{_WORKDAY})|(?P<daily>{_DAY})|{_MONTH}|{_MONTHLY_FIRST}|{_WEEKDAYS}"
_REPEATS = re.compile(rf"(?:{_EVERY}(?:{_RULE})|(?P<adverb>{_DAILY}))(?!\w)", re.IGNORECASE)
#: /every 8:00 and /every monday 8:00 need no word for "every".
_BARE = re.compile(rf"(?:{_RULE})(?!\w)", re.IGNORECASE)
#: What looks like a time of day.
_CLOCK = re.compile(r"(?<![0-9:])(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?![0-9:])")


def read_request(text: str, now: float, zone: ZoneInfo) -> tuple[DueTime, str]:
    """When and what: the longest beginning that is a time, else the longest end. InvalidInput if there is none, it is past, or no text is left."""
    if repeating := _repeating(text, now, zone, _REPEATS):
        return _with_text(*repeating)
    words = text[:_READ].split()
    for count in range(min(MOST_WORDS, len(words)), 0, -1):
        if found := _once(" ".join(words[:count]), now, zone):
            return _with_text(found, text.split(maxsplit=count)[count] if len(words) > count else "")
    for count in range(min(MOST_WORDS, len(words) - 1), 0, -1) if len(text) <= _READ else ():
        if found := _once(" ".join(words[-count:]), now, zone):
            return _with_text(found, " ".join(words[:-count]))
    deadline_of(" ".join(words[:4]), now, zone)  # says why it is none
    raise _invalid(NO_DATE, text)


def read_repeating(text: str, now: float, zone: ZoneInfo) -> tuple[DueTime, str]:
    """The same for `/every`, which only takes what repeats, with or without the word "every"."""
    found = _repeating(text, now, zone, _REPEATS) or _repeating(text, now, zone, _BARE)
    if found is None and (clock := _clock_ahead(text)) is not None:
        found = _of_rule(RepeatRule(), clock[0], now, zone), clock[1]
    if found is None:
        raise _invalid(HOW_OFTEN, text)
    return _with_text(*found, NO_QUESTION)


def read_when(text: str, now: float, zone: ZoneInfo, every: str = "") -> DueTime:
    """A time alone, the WHEN of a tag; `every`: its EVERY ("day", "weekday", "mon, thu", "month on 24"). InvalidInput if it is no time, has other
    words beside it, or is past."""
    if every:
        once = read_coming(text, now, zone) if text else None
        rule = _BARE.fullmatch(every.strip())
        if rule is None or (text and once is None):
            raise _invalid(HOW_OFTEN if rule is None else NO_DATE, every if rule is None else text)
        clock = datetime.fromtimestamp(once.starts, zone).time().replace(fold=0) if once else MORNING
        return _of_rule(_rule(rule), clock, max(now, once.starts - 1) if once else now, zone)
    if found := _repeating(text, now, zone, _REPEATS):
        if not found[1].strip(" .,;"):
            return found[0]
        raise _invalid(NO_DATE, text)
    if once_only := _once(text, now, zone):
        return once_only
    deadline_of(text, now, zone)  # says why it is none
    raise _invalid(NO_DATE, text)


def _with_text(due: DueTime, text: str, missing: str = NO_TEXT) -> tuple[DueTime, str]:
    text = text.strip().lstrip(",;:-–— ").strip()
    if not text:
        raise InvalidInput(tr(missing))
    if (clock := _CLOCK.match(text)) and (int(clock["hour"]) > 23 or int(clock["minute"]) > 59):
        raise InvalidInput(tr(NO_TIME).format(text=clock[0]))
    return due, text


def _once(text: str, now: float, zone: ZoneInfo) -> DueTime | None:
    """A single moment to come; None if the words are none. InvalidInput for one that is past."""
    found = read_coming(text, now, zone)
    if found is None:
        return None
    if found.starts <= now:
        if found.at > now:
            raise _invalid(OVER, text, day=exact_text(found.starts, zone))
        raise _invalid(PAST, text, day=exact_text(found.at, zone))
    return DueTime(found.starts)


def _invalid(sentence: str, text: str, **more: str) -> InvalidInput:
    return InvalidInput(tr(sentence).format(text=shorten(one_line(text), QUOTED), **more))


def _repeating(text: str, now: float, zone: ZoneInfo, pattern: re.Pattern[str]) -> tuple[DueTime, str] | None:
    """A rule at the beginning, with its time of day, and what follows."""
    stripped = text.strip()
    match = pattern.match(stripped)
    if match is None:
        return None
    clock, rest = _clock_ahead(stripped[match.end() :]) or (MORNING, stripped[match.end() :])
    return _of_rule(_rule(match), clock, now, zone), rest


def _of_rule(rule: RepeatRule, clock: time, now: float, zone: ZoneInfo) -> DueTime:
    return DueTime(next_moment(rule, clock, zone, now), rule, clock)


def _rule(match: re.Match[str]) -> RepeatRule:
    named = match.groupdict()
    if named["workdays"]:
        return RepeatRule((0, 1, 2, 3, 4))
    if number := named["day"] or named["nth"]:
        return RepeatRule(month_day=max(1, int(number)))
    if not named["weekdays"]:
        return RepeatRule()
    said = re.findall(_WEEKDAY, named["weekdays"].lower())
    days = {index_of(word, *_WEEKDAY_FORMS) for word in said}
    return RepeatRule(tuple(sorted(days)))


def _clock_ahead(text: str) -> tuple[time, str] | None:
    """The time of day at the beginning of a text, and what follows; the longest that is nothing else."""
    text = text.strip().lstrip(",").strip()
    words = text.split(maxsplit=6)[:6]
    for count in range(min(5, len(words)), 0, -1):
        for language in languages_tried():
            try:
                rest, clock, _ = take_clock(" ".join(words[:count]).lower(), language)
            except ValueError:
                continue
            if clock is not None and not rest:
                return clock, text.split(maxsplit=count)[count] if len(words) > count else ""
    return None
