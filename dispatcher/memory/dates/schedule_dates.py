"""When a reminder is due, as people write it: `tomorrow 9:00`, `in 20 minutes`, `every monday 8:00`, `jeden Tag um 7:30`, with its text beside.

Single dates are those of deadlines.py, times of day those of times_of_day.py, in the five languages of both; here are the words for what repeats. A
day without a time of day means 9:00, an evening 20:00. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time
from itertools import chain
from typing import NamedTuple
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.deadlines import plain_words, resolve
from dispatcher.memory.dates.times_of_day import Clock, split
from dispatcher.memory.dates.translations import translations
from dispatcher.memory.dates.user_dates import deadline_of
from dispatcher.memory.dates.wall_clock import RepeatRule, as_if_utc, exact_text, next_moment, wall_moment
from shared.errors import InvalidInput
from shared.text.dates.calendar_days import end_of_day
from shared.text.dates.calendar_words import WORDS, either
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr

#: The time of day where none is named: of a day, and of its evening.
MORNING, EVENING = time(9), time(20)
#: The most words that a date has.
MOST_WORDS = 10
QUOTED = 60
HOW_OFTEN = later(
    'I do not understand how often "{text}" is. Write it like this: day 7:30, monday 8:00, weekday 9:00, month on 24 18:00, and then the text.'
)
NO_DATE = later('I do not understand the date "{text}".')
NO_TEXT = later("The text is missing. Write it like this: /remind tomorrow 9:00 buy bread.")
NO_QUESTION = later("The question is missing. Write it like this: /every monday 8:00 What is new in astronomy?")
NO_TIME = later('"{text}" is no time of day. Write it like 9:00 or 21:30.')
OVER = later('"{text}" is over today ({day}). Name a time of day, or another day.')
PAST = later('"{text}" is in the past ({day}). Name a time in the future, for example: tomorrow 9:00, in 20 minutes.')
#: The longest text of which the beginning and the end are read. Characters.
_READ = 2_000


@dataclass(frozen=True)
class DueTime:
    """The next moment (POSIX seconds), and by which rule and wall clock it repeats, if it does."""

    at: float
    rule: RepeatRule | None = None
    clock: time = MORNING


class _Prefix(NamedTuple):
    due: DueTime
    text: str


_LANGUAGES = ("en", "de", "fr", "es", "ru")
_EVERY = (
    r"(?:every|each|on every|jede[nrsm]?|tous les|toutes les|chaque|cada|todos los|todas las|кажд(?:ый|ую|ое|ые)|по)\s+"
)
_DAILY = r"(?:daily|täglich|taeglich|quotidiennement|diariamente|ежедневно)"
_WORKDAY = (
    r"(?:weekdays?|work(?:ing )?days?|werktags?|arbeitstags?|jours? ouvrables?|d[ií]as? laborables?"
    r"|будн\w+(?: д\w+)?|рабоч\w+ д\w+)"
)
_DAY = r"(?:days?|tag|jours?|días?|dias?|день|дням)"
_MONTH = (
    r"(?:months?|monat|mois|mes(?:es)?|месяц)(?:\s+(?:on|am|le|el día|el dia|el))?(?:\s+(?:the|day))?\s+"
    r"(?P<day>[12]?\d|3[01])(?:st|nd|rd|th|\.|er|-?го)?(?:\s+числа)?"
)
_MONTHLY_FIRST = r"(?P<nth>[12]?\d|3[01])(?:st|nd|rd|th|\.)(?:\s+(?:of the month|des monats))?"
_FORMS = [[*WORDS[one].weekday_forms] for one in _LANGUAGES]
_SHORT = [[*WORDS[one].weekday_short] for one in _LANGUAGES]
_WEEKDAY = rf"(?:{either(chain(*_FORMS, *_SHORT))})s?\.?"
_AND = r"(?:\s*,\s*|\s+)(?:(?:and|und|et|y|и)\s+)?(?:(?:every|on)\s+)?"
_WEEKDAYS = rf"(?P<weekdays>{_WEEKDAY}(?:{_AND}{_WEEKDAY})*)"
_REPEATS = re.compile(
    rf"(?:{_EVERY}(?:(?P<workdays>{_WORKDAY})|(?P<daily>{_DAY})|{_MONTH}|{_MONTHLY_FIRST}|{_WEEKDAYS})|(?P<adverb>{_DAILY}))(?![\w])",
    re.IGNORECASE,
)
#: /every 8:00 and /every monday 8:00 need no word for "every".
_BARE = re.compile(
    rf"(?:(?P<workdays>{_WORKDAY})|(?P<daily>{_DAY})|{_MONTH}|{_MONTHLY_FIRST}|{_WEEKDAYS})(?![\w])", re.IGNORECASE
)
#: Words that may end a date, and more often begin its text.
_SMALL = frozenset(
    "in at on by to the a an for with im am um an zu der die das den à au le la les en a el los во в на к ко с со".split()
)
#: What looks like a time of day.
_CLOCK = re.compile(
    r"(?:(?:at|um|à|a las|в|@)\s*)?(?<![0-9:])(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?![0-9:])", re.IGNORECASE
)
_SHORT_NUMBER = re.compile("[0-9]{1,3}")
_AHEAD = re.compile(r"(?:at|um|à|a las|в|by|gegen|@)?", re.IGNORECASE)


def read_request(text: str, now: float, zone: ZoneInfo) -> tuple[DueTime, str]:
    """When and what: the longest beginning that is a date, else the longest end. InvalidInput if there is none, it is past, or no text is left."""
    words = text[:_READ].split()
    if relative := _relative(text, words, now, zone):
        return _with_text(relative)
    if repeating := _repeating(text, now, zone, _REPEATS):
        return _with_text(repeating)
    whole = _once(text, now, zone) if len(words) <= MOST_WORDS else None
    for count in range(min(MOST_WORDS, len(words) - 1), 0, -1):
        found, rest = _once(" ".join(words[:count]), now, zone), words[count:]
        if whole and not (found == whole and _is_text(rest)):
            continue
        if found:
            while (
                count > 1
                and _may_be_text(words[:count], now, zone)
                and _once(" ".join(words[: count - 1]), now, zone) == found
            ):
                count -= 1  # "tomorrow 9:00 in the garden"
            return _with_text(_Prefix(found, text.split(maxsplit=count)[count]))
    if whole:
        return _with_text(_Prefix(whole, ""))
    for count in range(min(MOST_WORDS, len(words) - 1), 0, -1) if len(text) <= _READ else ():
        if found := _once(" ".join(words[-count:]), now, zone):
            return _with_text(_Prefix(found, " ".join(words[:-count])))
    _refuse(" ".join(words[:4]), now, zone)
    raise AssertionError


def _may_be_text(words: list[str], now: float, zone: ZoneInfo) -> bool:
    """Whether the last word of a date is perhaps none of it: a small word, or a number in whose place any other says the same."""
    last, ahead = words[-1], words[:-1]
    if not _SHORT_NUMBER.fullmatch(last):
        return last.lower() in _SMALL
    with suppress(InvalidInput):
        return _once(" ".join([*ahead, "8" if last != "8" else "7"]), now, zone) == _once(" ".join(words), now, zone)
    return False


def _relative(text: str, words: list[str], now: float, zone: ZoneInfo) -> _Prefix | None:
    """A beginning such as "in 20 minutes", whatever date its text could make of it: the longest that is counted from now on, without words that
    change nothing."""
    moments = [_from_now(" ".join(words[:count]), now, zone) for count in range(min(MOST_WORDS, len(words)) + 1)]
    last = next((count for count in range(len(moments) - 1, 0, -1) if moments[count] is not None), 0)
    found = moments[last]
    if found is None:
        return None
    first = next(count for count in range(1, last + 1) if moments[count] == found)
    return _Prefix(DueTime(found), text.split(maxsplit=first)[first] if len(words) > first else "")


def _from_now(text: str, now: float, zone: ZoneInfo) -> float | None:
    """The moment of a text that is counted from now on; None for any other."""
    try:
        found = resolve(text, now, zone) if text else None
        a_second_on = resolve(text, now + 1, zone) if found else None
    except (ValueError, OverflowError):
        return None
    counted = found and a_second_on and found.at > now and abs(a_second_on.at - found.at - 1) < 1e-3
    return found.at if found and counted else None


def _is_text(rest: list[str]) -> bool:
    """Whether words that change nothing of a date are its text: "tomorrow 9:00" has none, "dans 20 minutes thé" has."""
    return not any(character.isdigit() for word in rest for character in word)


def read_repeating(text: str, now: float, zone: ZoneInfo) -> tuple[DueTime, str]:
    """The same for `/every`, which only takes what repeats, with or without the word "every"."""
    found = _repeating(text, now, zone, _REPEATS) or _repeating(text, now, zone, _BARE)
    if found is None and (clock := _clock_ahead(text)) is not None:
        found = _Prefix(_of_rule(RepeatRule(), clock[0], now, zone), clock[1])
    if found is None:
        raise _invalid(HOW_OFTEN, text)
    return _with_text(found, NO_QUESTION)


def read_when(text: str, now: float, zone: ZoneInfo) -> DueTime:
    """A date alone: the WHEN of a tag. InvalidInput if it is no date, has other words beside it, or is past."""
    if found := _repeating(text, now, zone, _REPEATS):
        if not found.text.strip(" .,;"):
            return found.due
        raise _invalid(NO_DATE, text)
    once = _once(text, now, zone)
    if once is None:
        _refuse(text, now, zone)
        raise AssertionError
    return once


def _with_text(found: _Prefix, missing: str = NO_TEXT) -> tuple[DueTime, str]:
    text = found.text.strip().lstrip(",;:-–— ").strip()
    if not text:
        raise InvalidInput(tr(missing))
    _refuse_clock(_CLOCK.match(text))
    return found.due, text


def _refuse_clock(clock: re.Match[str] | None) -> None:
    """InvalidInput for a time of day that does not exist."""
    if clock and (int(clock["hour"]) > 23 or int(clock["minute"]) > 59):
        raise InvalidInput(tr(NO_TIME).format(text=f"{clock['hour']}:{clock['minute']}"))


def _refuse(text: str, now: float, zone: ZoneInfo) -> None:
    """Raises what is wrong with a text that is no date to come, in its language."""
    found = deadline_of(text, now, zone)
    raise _invalid(OVER, text, day=found.text)


def _once(text: str, now: float, zone: ZoneInfo) -> DueTime | None:
    """A single moment to come; None if the words are none, or one that is past: then the caller says so."""
    try:
        at = _moment(text, now, zone)
    except (ValueError, OverflowError):
        return None
    if at is not None and at <= now and resolve(text, now, zone) is not None:
        raise _invalid(PAST, text, day=exact_text(at, zone))
    if at is not None:
        for clock in _CLOCK.finditer(text):
            _refuse_clock(clock)
    return DueTime(at) if at is not None else None


def _invalid(sentence: str, text: str, **more: str) -> InvalidInput:
    return InvalidInput(tr(sentence).format(text=shorten(one_line(text), QUOTED), **more))


def _moment(text: str, now: float, zone: ZoneInfo) -> float | None:
    found = resolve(text, now, zone)
    if found is None:
        return None
    if _from_now(text, now, zone) is not None:  # "in 20 minutes" keeps no wall clock
        return found.at
    # Read once more where no clock is ever changed: what that shows is the wall clock that was meant.
    plain = resolve(text, as_if_utc(now, zone), ZoneInfo("UTC"))
    if plain is None or (plain.at == found.at and as_if_utc(found.at, zone) != found.at):  # it names its own zone
        return found.at
    wall = datetime.fromtimestamp(plain.at, UTC).replace(tzinfo=None)
    clock = wall.time()
    if int(plain.at) == end_of_day(wall.date(), ZoneInfo("UTC")):
        clock = EVENING if _names_evening(text) else MORNING
    return wall_moment(wall.date(), clock, zone)


def _phrases(text: str) -> Iterator[str]:
    return chain([text], (english for _, english in translations(text)))


def _names_evening(text: str) -> bool:
    for phrase in _phrases(text):
        try:
            _, clock = split(plain_words(phrase))
        except ValueError:
            continue
        if clock is not None:
            return True
    return False


def _repeating(text: str, now: float, zone: ZoneInfo, pattern: re.Pattern[str]) -> _Prefix | None:
    """A rule at the beginning, with its time of day."""
    stripped = text.strip()
    match = pattern.match(stripped)
    if match is None:
        return None
    clock, rest = _clock_ahead(stripped[match.end() :]) or (MORNING, stripped[match.end() :])
    return _Prefix(_of_rule(_rule(match), clock, now, zone), rest)


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
    days = {_weekday(word[0]) for word in re.finditer(_WEEKDAY, named["weekdays"], re.IGNORECASE)}
    return RepeatRule(tuple(sorted(days)))


def _weekday(word: str) -> int:
    for forms in chain(_FORMS, _SHORT):
        for number, form in enumerate(forms):
            if re.fullmatch(rf"(?:{form})s?\.?", word, re.IGNORECASE):
                return number % 7
    raise ValueError(word)


def _clock_ahead(text: str) -> tuple[time, str] | None:
    """The time of day at the beginning of a text, and what follows; the longest that is nothing else."""
    words = text.strip().lstrip(",").split()
    for count in range(min(5, len(words)), 0, -1):
        clock = _clock(" ".join(words[:count]))
        if clock is not None:
            return clock, text.strip().lstrip(",").strip().split(maxsplit=count)[count] if len(words) > count else ""
    return None


def _clock(text: str) -> time | None:
    for phrase in _phrases(text):
        try:
            rest, clock = split(plain_words(phrase))
        except ValueError:
            continue
        if isinstance(clock, Clock) and clock.zone is None and _AHEAD.fullmatch(rest.strip()):
            return clock.at or EVENING
    return None
