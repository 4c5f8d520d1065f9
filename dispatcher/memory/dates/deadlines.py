"""Dates that people and the model write ("next Friday", "by the end of May", "через две недели", "nächsten Freitag"), as moments ahead.

The rules here read English and Russian; German, French and Spanish are put into English first (translations.py), times of day are
times_of_day.py's. The words and the calendar are those of shared/text/dates/, whose named_times.py reads what a question names. What is
named is over at its last second: a day at 23:59:59 in the chat's zone, a week on Sunday, "by May" and "in May" with the 31st; "before" ends with
the second before. Days without a date look ahead, today included; "next Friday" is the nearest one after today, because a deadline that comes
early can be moved. In figures, 12.01.2026 and 12-01-2026 are January 12 (dots and dashes are the European habit); 12/01/2026 is one day in America
and another in Europe, so it is none, unless other words ("le 12/01") or a number above 12 decide. A weekday that is not that of its date makes it
none.

Dates and counts ("1 December", "in 3 months") are dateparser's; the rules here are for what it does not know or takes otherwise: ends of things,
weekdays, months, times of day. It is asked in English and Russian alone: by itself it finds the day of 14 of the tests' 46 German phrases, of 21 of
35 French and 7 of 36 Spanish ones, no "next Friday" among them, and takes 03.12. for a time of day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import chain
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.dateparser_dates import ask
from dispatcher.memory.dates.times_of_day import Clock, split
from dispatcher.memory.dates.translations import translations
from shared.text.dates.calendar_days import (
    Days,
    end_of_day,
    instant,
    latest_weekday,
    months,
    nearest_date,
    nearest_day_of_month,
    nearest_month,
    nearest_weekday,
    one_day,
    quarter,
    unit_of,
)
from shared.text.dates.calendar_words import ENGLISH, RUSSIAN, either, index_of, number_of
from shared.text.format import one_line

#: Further away than this is no deadline. Seconds.
FARTHEST = 50 * 365.25 * 86_400
#: Longer texts name more than a date. Characters.
MOST_CHARACTERS = 100


@dataclass(frozen=True)
class Deadline:
    """A moment (POSIX seconds) and the words that it was read from. It may be past, if the words say so."""

    at: float
    text: str


def resolve(text: str, now: float, zone: ZoneInfo) -> Deadline | None:
    """The deadline that a text names, seen from `now` (POSIX seconds) in `zone`; None if it is no date, or one over 50 years away. Never raises."""
    if len(text) > 4 * MOST_CHARACTERS:
        return None
    for phrase in chain([text], (english for _, english in translations(text))):
        words = plain_words(phrase)
        try:
            at = _moment(words, now, zone) if 0 < len(words) <= MOST_CHARACTERS else None
        except (ValueError, OverflowError):  # a 32nd, or a year outside the calendar
            continue
        if at is not None and abs(at - now) <= FARTHEST:
            return Deadline(at, one_line(text))
    return None


#: Numbers in words; the last part of a longer one ("двадцать один") stays.
_NUMBER = re.compile(
    rf"(?<!\w)(?<!дцать )(?<!сорок )(?<!десят ){either(form for form, _ in chain(ENGLISH.counts(), RUSSIAN.counts()))}(?!\w)"
)
_REWRITES: list[tuple[re.Pattern[str], str]] = [
    (re.compile(pattern), plain)
    for pattern, plain in [
        (r"\bhalf an? hour\b", "30 minutes"),
        (r"\b(?:через )?полчаса\b", "через 30 минут"),
        (r"\b(?:через )?полтора часа\b", "через 90 минут"),
        (r"\b(?:from (?:now|today)|(?:at the )?latest)$", ""),
        (r"\b(?:the )?next (?=\d)", ""),
        (r"\b(?:eod|cob|(?:the )?(?:end|close) of (?:the )?(?:business )?(?:day|business|today))\b", "evening"),
        (r"\b(?:к )?кон(?:ец|ца|цу|це) (?:рабочего )?дня\b", "вечером"),
        (r"\beow\b", "end of week"),
        (r"\beom\b", "end of month"),
        (r"\beoy\b", "end of year"),
        (r"\b(\d{1,2})-?(?:го|е|му)\b(?= [а-я])(?! числа)", r"\1"),
    ]
]
_BEFORE = re.compile(r"(?:due |some ?time )*(?:before|ahead of|перед)\b ?")
_AHEAD = re.compile(
    r"(?:(?:due|deadline|some ?time|by|on|until|till?|no later than|not later than|within|during|at|in|from|the|coming"
    r"|к|ко|до|не позднее|не позже|в|во|на|по|около)\b:?+ ?+(?!течение))+"
)


def plain_words(text: str) -> str:
    """Lower case, single blanks, no punctuation around, and one wording for what has several."""
    words = one_line(text[: 4 * MOST_CHARACTERS]).lower().replace("ё", "е").strip(" .,;:!?()[]\"'«»“”")
    words = _NUMBER.sub(_figures, words)
    for pattern, plain in _REWRITES:
        words = pattern.sub(plain, words)
    return words.strip()


def _figures(number: re.Match[str]) -> str:
    said = number[0]
    return said if said in ("a", "an") else str(number_of(said, ENGLISH, RUSSIAN))


def _moment(words: str, now: float, zone: ZoneInfo) -> float | None:
    """POSIX seconds of the end of what is named. ValueError or OverflowError for what no calendar has."""
    local = datetime.fromtimestamp(now, zone)
    if "t" in words and (exact := _iso(words, zone)) is not None:
        return exact
    before = _BEFORE.match(words)
    words, clock = split(words[before.end() :] if before else words)
    if ahead := _AHEAD.match(words):
        words = words[ahead.end() :]
    if clock and words in ("", "today", "сегодня"):
        return _today(clock, local, zone, said=bool(words))
    found = _days(words, local.date()) or _parsed(words, local)
    if found is None:
        return None
    if isinstance(found, timedelta):
        return now + found.total_seconds()
    first, end = found
    if clock and clock.at:
        return instant(end - timedelta(1), clock.at, clock.zone or zone)
    return end_of_day(first - timedelta(1) if before and not _EDGE_END.match(words) else end - timedelta(1), zone)


def _today(clock: Clock, local: datetime, zone: ZoneInfo, *, said: bool) -> float:
    """A time without a day: today, or tomorrow if it is over and today was not said."""
    if clock.at is None:
        return end_of_day(local.date(), zone)
    at = instant(local.date(), clock.at, clock.zone or zone)
    return at if said or at > local.timestamp() else instant(local.date() + timedelta(1), clock.at, clock.zone or zone)


def _iso(words: str, zone: ZoneInfo) -> float | None:
    """`2026-12-01t17:00z`, a moment; without an offset it is in the chat's zone."""
    try:
        moment = datetime.fromisoformat(words.upper())
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else instant(moment.date(), moment.time(), zone)


Reader = Callable[[re.Match[str], date], Days | None]

_EDGE = r"(?:(?P<edge>end|close|start|beginning|кон(?:ец|ца|цу|це)|начал[оауе]) (?:of )?(?:the )?)?"
_EDGE_END = re.compile(r"end|close|кон(?:ец|ца|цу|це)\b")
_LAST, _THIS, _NEXT = (
    either(forms)
    for forms in (
        [ENGLISH.last, RUSSIAN.last],
        [ENGLISH.this, RUSSIAN.this, "coming", r"ближайш\w+"],
        [ENGLISH.following, RUSSIAN.following],
    )
)
_WHICH = f"(?:(?P<which>{_LAST}|{_THIS}|{_NEXT}) )?"
_YEAR = r"(?P<year>(?:19|20)\d\d)(?: год\w*| ?г)?"
_UNITS = ("week", "weekend", "month", "quarter", "year")
_UNIT_FORMS = [[words.units[unit] for unit in _UNITS] for words in (ENGLISH, RUSSIAN)]
_MONTH_FORMS = [forms for words in (ENGLISH, RUSSIAN) for forms in (words.month_forms, words.month_short)]
_WEEKDAY_FORMS = [forms for words in (ENGLISH, RUSSIAN) for forms in (words.weekday_forms, words.weekday_short)]
_UNIT = rf"(?P<unit>{either(chain(*_UNIT_FORMS))})(?<!s)"  # "the next weeks" have no end
_MONTH = rf"(?P<month>{either(chain(*_MONTH_FORMS))})\.?"
_WEEKDAY = rf"(?P<weekday>{either(chain(*_WEEKDAY_FORMS))})\.?"
_WEEKDAY_NAMED = re.compile(rf"\b{_WEEKDAY}(?!\w)")


def _days(words: str, today: date) -> Days | None:
    """What the rules below know, as days."""
    for pattern, read in READERS:
        if match := pattern.fullmatch(words):
            return read(match, today)
    return None


def _turn(which: str | None) -> int:
    """-1 for the last, 1 for the next, 0 for this one."""
    return int(bool(re.fullmatch(_NEXT, which or ""))) - int(bool(re.fullmatch(_LAST, which or "")))


def _edged(days: Days, edge: str | None) -> Days:
    """The whole, or its first day; the end of it is where it ends anyway."""
    return one_day(days[0]) if edge and edge.startswith(("start", "begin", "нач")) else days


def _unit(match: re.Match[str], today: date) -> Days | None:
    """A week, month, … as it lies in the calendar. A bare "week" says nothing."""
    unit, turn = _UNITS[index_of(match["unit"], *_UNIT_FORMS)], _turn(match["which"])
    if unit == "weekend":
        monday, end = unit_of("week", today, turn)
        return _edged((monday + timedelta(5), end), match["edge"])
    return _edged(unit_of(unit, today, turn), match["edge"]) if match["edge"] or match["which"] else None


def _named_month(match: re.Match[str], today: date) -> Days:
    """A month; without a year the one that is not over."""
    month, year = index_of(match["month"], *_MONTH_FORMS) + 1, int(match["year"] or 0)
    return _edged(nearest_month(month, year, today, _turn(match["which"])), match["edge"])


def _quarter(match: re.Match[str], today: date) -> Days:
    """A quarter; without a year the one that is not over."""
    number = int(match["quarter"])
    return _edged(quarter(int(match["year"] or today.year + (3 * number < today.month)), number), match["edge"])


def _weekday(match: re.Match[str], today: date) -> Days:
    """The nearest one: from today on; after today for "next", before it for "last"; the one in that week if a week is named."""
    number, turn = index_of(match["weekday"], *_WEEKDAY_FORMS), _turn(match["which"])
    if match["week"]:
        monday, _ = unit_of("week", today, _turn(match["week"]))
        return one_day(monday + timedelta(number))
    return latest_weekday(number, today) if turn < 0 else nearest_weekday(number, today, turn)


def _day_of_month(match: re.Match[str], today: date) -> Days:
    return nearest_day_of_month(int(match["day"]), today, _turn(match["which"]))


def _day_and_month(match: re.Match[str], today: date) -> Days:
    return nearest_date(int(match["month"]), int(match["day"]), today)


def _year_first(match: re.Match[str], _: date) -> Days:
    return one_day(date(int(match["year"]), int(match["month"]), int(match["day"])))


_WEEK = f"(?P<week>{_LAST}|{_THIS}|{_NEXT}) {either([ENGLISH.units['week'], RUSSIAN.units['week']])}"
_RULES: list[tuple[str, Reader]] = [
    (rf"{_EDGE}{_WHICH}{_UNIT}", _unit),
    (rf"{_EDGE}{_WHICH}{_MONTH}(?:,? (?:of )?{_YEAR})?", _named_month),
    (rf"{_EDGE}{_YEAR}", lambda match, _: _edged(months(int(match["year"]), 1, 12), match["edge"])),
    (rf"{_EDGE}(?:q(?P<quarter>[1-4]))(?: (?:of )?{_YEAR})?", _quarter),
    (rf"{_EDGE}(?P<quarter>[1-4])(?:-?(?:й|го|м|му))? квартал\w*(?: {_YEAR})?", _quarter),
    (rf"{_WHICH}(?:coming )?{_WEEKDAY}(?P<week>)", _weekday),
    (rf"(?P<which>){_WEEKDAY},? (?:на |of )?{_WEEK}", _weekday),
    (rf"(?P<which>){_WEEK},? (?:on |во? )?{_WEEKDAY}", _weekday),
    (r"(?P<day>\d{1,2})(?:st|nd|rd|th)(?: (?:of )?(?P<which>the|this|next) month)?", _day_of_month),
    (r"(?P<day>\d{1,2})(?:-?(?:го|е|му)(?: числа)?| числа)(?P<which>)", _day_of_month),
    (r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.?", _day_and_month),
    (r"(?P<year>\d{4})([-./])(?P<month>\d{1,2})\2(?P<day>\d{1,2})", _year_first),
]
READERS = [(re.compile(pattern), read) for pattern, read in _RULES]

#: What is worth asking dateparser: it takes "a", "5" and "1 a" for dates too.
_WORTH = re.compile(r"[^\W\d_]{3,}|\d[./-]\d")


def _parsed(words: str, local: datetime) -> Days | timedelta | None:
    """What dateparser knows: a day, or a count of hours or minutes from now."""
    if not _WORTH.search(words):
        return None
    base = local.replace(tzinfo=None)
    yesterday = base.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(1)  # so that today is ahead, too
    if ambiguous(words) or _NO_UNIT.search(words):
        return None
    order = "MDY" if "/" in words else "DMY"
    found, _ = ask(
        words, PARSERS=["absolute-time"], RELATIVE_BASE=yesterday, REQUIRE_PARTS=["day", "month"], DATE_ORDER=order
    )
    if found is None and not re.search(r"\d \d", words):  # it would leave out one of two numbers
        found, period = ask(words, PARSERS=["relative-time"], RELATIVE_BASE=base, RETURN_TIME_AS_PERIOD=True)
        if found is not None and period == "time":
            return found.replace(tzinfo=None) - base or None  # "now" is no deadline
    if found is None or _other_weekday(words, found.date()):
        return None
    return one_day(found.date())


#: "de hoy en ocho", "today 8": dateparser would read the day alone.
_NO_UNIT = re.compile(r"\b(?:in|через|today|tomorrow) \d{1,2}$")
_SLASHES = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})(?:/(?:\d\d){1,2})?(?![\d/])")


def ambiguous(words: str) -> bool:
    """Whether a date in slashes is one day in America and another one in Europe."""
    found = _SLASHES.search(words)
    return bool(found) and found[1] != found[2] and max(int(found[1]), int(found[2])) <= 12  # type: ignore[index]


def _other_weekday(words: str, day: date) -> bool:
    """Whether a date is named with a weekday that it is not."""
    named = _WEEKDAY_NAMED.search(words)
    return bool(named) and index_of(named["weekday"].rstrip("."), *_WEEKDAY_FORMS) != day.weekday()  # type: ignore[index]
