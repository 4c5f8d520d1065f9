"""Times that a question names ("last week", "in May", "two days ago"), as spans, in the chat's time zone. Pure functions. The rules of English
stand here, those of German, French, Spanish and Russian in shared/text/time_phrases.py.

A span is what was said then, so nothing here looks ahead: a month or weekday without a year or date is the latest that has begun. Seasons are left
out (they differ by hemisphere), and so is what names no time of a calendar ("recently", "after lunch").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from shared.text.function_words import language_of

#: Half-open, POSIX seconds.
Span = tuple[float, float]
#: Half-open, in days of the chat's calendar.
Days = tuple[date, date]

MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
NUMBERS = {
    name: number
    for number, name in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), start=1)
} | {"a": 1, "an": 1, "a couple of": 2, "couple of": 2, "a few": 3, "few": 3, "several": 4}

_COUNT = rf"(?P<count>\d{{1,3}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
_UNIT = r"(?P<unit>day|week|month|year)s?"
#: Short forms are as usual as full ones, but "may", "mar" and "sun" are words too: those count beside a number or "in" only.
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' if name != 'may' else name for name in MONTHS)}|sept)\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_WEEKDAY = rf"(?P<weekday>{'|'.join(WEEKDAYS)})"

_WORD = re.compile(r"[\w\u0300-\u036f]+")

Reader = Callable[[re.Match[str], date], Days | None]


#: "A year ago" is when something happened, "last week" when it was told.
LATELY = timedelta(7)


@dataclass(frozen=True)
class Times:
    """The times that a question names. `from_now`: a day or week is counted from the day of asking ("yesterday"), so it says when the turn was
    said, not only what it was about; `rest` is the question without those words, which mean another day in every turn that holds them, and
    `beside` without any time at all.
    """

    spans: list[Span]
    from_now: bool
    rest: str
    beside: str = ""


def read_times(question: str, now: float, zone: ZoneInfo) -> Times:
    """What a question names, seen from `now` (POSIX seconds) in `zone`; each word counts once, the longest phrase first."""
    today = datetime.fromtimestamp(now, zone).date()
    left = rest = question.lower()
    found, from_now = list[Days](), False
    for pattern, read in readers(language_of(_WORD.findall(left))):
        named = [days for match in pattern.finditer(left) if (days := _possible(read, match, today)) is not None]
        left = pattern.sub(" . ", left)
        if read not in _ABSOLUTE and any(end - first <= LATELY for first, end in named):
            from_now, rest = True, pattern.sub(" ", rest)
        found += named
    return Times(
        [(_midnight(first, zone), _midnight(end, zone)) for first, end in dict.fromkeys(found)], from_now, rest, left
    )


def spans(question: str, now: float, zone: ZoneInfo) -> list[Span]:
    """The times that a question names, half-open, in the order of the rules."""
    return read_times(question, now, zone).spans


def _possible(read: Reader, match: re.Match[str], today: date) -> Days | None:
    """What a match means; nothing for a 30th of February or a year before the calendar."""
    try:
        return read(match, today)
    except (ValueError, OverflowError):
        return None


def _midnight(day: date, zone: ZoneInfo) -> float:
    """When a day begins there; days of 23 and 25 hours come out as they are."""
    return datetime.combine(day, time.min, zone).timestamp()


def _one(day: date) -> Days:
    return day, day + timedelta(1)


def _week(day: date) -> Days:
    monday = day - timedelta(day.weekday())
    return monday, monday + timedelta(7)


def _month(year: int, month: int) -> Days:
    """A calendar month; months outside 1..12 belong to the years beside."""
    first, following = (divmod(year * 12 + number, 12) for number in (month - 1, month))
    return date(first[0], first[1] + 1, 1), date(following[0], following[1] + 1, 1)


def _year(year: int) -> Days:
    return date(year, 1, 1), date(year + 1, 1, 1)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else NUMBERS[text]


def _ago(match: re.Match[str], today: date) -> Days:
    """Days are exact, weeks are the calendar week that the day is in, months and years likewise."""
    return ago(_number(match["count"]), match["unit"], today)


def ago(count: int, unit: str, today: date) -> Days:
    """So many days, weeks, months or years (in English, one of them) before today."""
    if unit == "day":
        return _one(today - timedelta(count))
    if unit == "week":
        return _week(today - timedelta(7 * count))
    return _month(today.year, today.month - count) if unit == "month" else _year(today.year - count)


def _past(match: re.Match[str], today: date) -> Days:
    """The last so many days, weeks, months or years, today with them."""
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]] * _number(match["count"] or "one")
    return today - timedelta(days), today + timedelta(1)


def _calendar(match: re.Match[str], today: date) -> Days:
    """This or the last week, month, year or weekend."""
    return calendar(int(match["which"] != "this"), match["what"], today)


def calendar(back: int, unit: str, today: date) -> Days:
    """The present week, month, year or weekend (back is 0), or the one before (1)."""
    if unit == "week":
        return _week(today - timedelta(7 * back))
    if unit == "month":
        return _month(today.year, today.month - back)
    if unit == "year":
        return _year(today.year - back)
    saturday = today - timedelta((today.weekday() - 5) % 7)
    if back and today.weekday() >= 5:  # on a weekend, the last one is the one before
        saturday -= timedelta(7)
    return saturday, saturday + timedelta(2)


def _weekday(match: re.Match[str], today: date) -> Days:
    return latest_weekday(WEEKDAYS.index(match["weekday"]), today)


def latest_weekday(number: int, today: date) -> Days:
    """The latest such day before today; Monday is 0."""
    return _one(today - timedelta((today.weekday() - number - 1) % 7 + 1))


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(MONTHS, start=1) if month.startswith(name[:3]))


def _date(match: re.Match[str], today: date) -> Days:
    """A day of a month; without a year the latest that is not after today."""
    return day_of(_month_number(match["month"]), int(match["day"]), match["year"], today)


def day_of(month: int, day: int, year: str | None, today: date) -> Days:
    """That day; without a year the latest that is not after today."""
    if year:
        return _one(date(int(year), month, day))
    this = date(today.year, month, day)
    return _one(this if this <= today else date(today.year - 1, month, day))


def _named_month(match: re.Match[str], today: date) -> Days:
    """A month; without a year the latest that has begun."""
    return month_of(_month_number(match["month"]), match.groupdict().get("year"), today)


def month_of(month: int, year: str | None, today: date) -> Days:
    """That month; without a year the latest that has begun."""
    return _month(int(year) if year else today.year - (month > today.month), month)


def _year_named(match: re.Match[str], _: date) -> Days:
    return _year(int(match["year"]))


def _iso(match: re.Match[str], _: date) -> Days:
    return _one(date.fromisoformat(match[0]))


def _back(days: int) -> Reader:
    return lambda _, today: _one(today - timedelta(days))


_TABLE: list[tuple[str, Reader]] = [
    (r"\d{4}-\d\d-\d\d", _iso),
    (rf"{_DAY}\s+(?:of\s+)?{_MONTH}(?:,?\s+{_YEAR})?", _date),
    (rf"{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})?", _date),
    (rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", _named_month),
    (rf"(?:in|since|during|last|this|of|early|late|mid)[\s-]+{_MONTH}", _named_month),
    (rf"(?P<month>{'|'.join(name for name in MONTHS if name not in ('march', 'may'))})", _named_month),
    (rf"(?:in|since|during|of|back in)\s+{_YEAR}", _year_named),
    (rf"{_COUNT}\s+{_UNIT}\s+(?:ago|back|earlier)", _ago),
    (rf"(?:the\s+)?(?:last|past|previous)\s+{_COUNT}\s+{_UNIT}", _past),
    (rf"(?:the|this)\s+past\s+(?P<count>){_UNIT}", _past),
    (r"the\s+day\s+before\s+yesterday", _back(2)),
    (r"yesterday|last\s+night", _back(1)),
    (r"today|tonight|this\s+(?:morning|afternoon|evening)", _back(0)),
    (r"(?P<which>this|last|past|previous)\s+(?P<what>week|month|year)(?!end)", _calendar),
    (r"(?P<which>this|last|past|previous)\s+(?P<what>weekend)", _calendar),
    (r"(?:on|over|at)\s+the\s+(?P<which>)(?P<what>weekend)", _calendar),
    (rf"(?:next|every|each|coming)\s+{_WEEKDAY}", lambda *_: None),  # taken, so that it is not read as the last one
    (_WEEKDAY, _weekday),
]
#: Readers of dates and months, which are as often what was spoken of as when.
_ABSOLUTE: set[Reader] = {_iso, _date, _named_month, _year_named}
READERS = [(re.compile(rf"\b(?:{pattern})(?!\w)"), read) for pattern, read in _TABLE]


@cache
def readers(language: str) -> list[tuple[re.Pattern[str], Reader]]:
    """The rules for a message of this language: "hier" is a time in French and a place in German."""
    from shared.text.time_phrases import ABSOLUTE, TABLES

    _ABSOLUTE.update(ABSOLUTE)
    own = TABLES.get(language, [])
    return [(re.compile(rf"\b(?:{pattern})(?!\w)"), read) for pattern, read in own] + READERS
