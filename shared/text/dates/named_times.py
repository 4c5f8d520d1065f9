"""The times that a question names ("last week", "in May", "vor zwei Tagen"), as spans, in the chat's time zone. Pure functions.

Looking back, a span is what was said then: a month or weekday without a year or date is the latest that has begun. Looking ahead ("this week",
"tomorrow", "on Friday") it is what is planned for then: the nearest to come. What a deadline means is dispatcher/memory/dates/deadlines.py's.
Seasons are left out (they differ by hemisphere), and so is what names no time of a calendar ("recently", "after lunch").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_days import (
    Days,
    latest_date,
    latest_month,
    latest_weekday,
    latest_weekend,
    midnight,
    months,
    nearest_date,
    nearest_month,
    nearest_weekday,
    one_day,
    unit_of,
)
from shared.text.dates.calendar_words import WORDS, CalendarWords, either, index_of, number_of, with_or_without_accents
from shared.text.dates.time_phrases import MORNINGS, PHRASES
from shared.text.format import one_line
from shared.text.words.function_words import language_of

#: Half-open, POSIX seconds.
Span = tuple[float, float]
#: "A year ago" is when something happened, "last week" when it was told.
LATELY = timedelta(7)

_WORD = re.compile(r"[\w\u0300-\u036f]+")


@dataclass(frozen=True)
class Times:
    """The times that a question names. `from_now`: a day or week is counted from the day of asking ("yesterday"), so it says when the turn was
    said, not only what it was about; `rest` is the question without those words, which mean another day in every turn that holds them, and
    `beside` without any time at all. `ahead`: the same words looking ahead, without what is over.
    """

    spans: list[Span]
    from_now: bool
    rest: str
    beside: str = ""
    ahead: tuple[Span, ...] = ()


#: What a match means, in the words of its language, seen from today.
Reader = Callable[[re.Match[str], CalendarWords, date], Days | None]


@dataclass(frozen=True)
class _Rule:
    """`from_now`: it counts from the day of asking, and is no date or month, which are as often what was spoken of as when. `read` looks back,
    `read_ahead` ahead."""

    pattern: re.Pattern[str]
    read: Reader
    read_ahead: Reader
    words: CalendarWords
    from_now: bool

    def days(self, match: re.Match[str], today: date, *, ahead: bool = False) -> Days | None:
        """Nothing for a 30th of February or a year before the calendar."""
        try:
            return (self.read_ahead if ahead else self.read)(match, self.words, today)
        except (ValueError, OverflowError):
            return None


def read_times(question: str, now: float, zone: ZoneInfo, language: str = "") -> Times:
    """What a question names, seen from `now` (POSIX seconds) in `zone`; each word counts once, the longest phrase first. `language`: one of
    WORDS, where it is known."""
    today = datetime.fromtimestamp(now, zone).date()
    left = rest = one_line(question).lower()
    found, ahead, from_now = list[Days](), list[Days](), False
    for rule in _rules(language or language_of(_WORD.findall(left))):
        matches = list(rule.pattern.finditer(left))
        named = [days for match in matches if (days := rule.days(match, today)) is not None]
        coming = [days for match in matches if (days := rule.days(match, today, ahead=True)) is not None]
        left = rule.pattern.sub(" . ", left)
        if rule.from_now and any(end - first <= LATELY for first, end in (*named, *coming)):
            from_now, rest = True, rule.pattern.sub(" ", rest)
        found += named
        ahead += [(first, end) for first, end in coming if end > today]
    past, future = (
        [(midnight(first, zone), midnight(end, zone)) for first, end in dict.fromkeys(some)] for some in (found, ahead)
    )
    return Times(past, from_now, rest, left, tuple(future))


def coming_days(words: str, today: date, language: str) -> Days | None:
    """The days to come that a phrase in lower case is, and nothing else; None for any other text. `language`: one of WORDS."""
    for rule in _rules(language):
        if (match := rule.pattern.fullmatch(words)) and (days := rule.days(match, today, ahead=True)):
            return days
    return None


def names_one_of(days: Sequence[Span], text: str, said_at: float, zone: ZoneInfo) -> bool:
    """Whether a text names one of these times, or a part of it, seen from when it was said (POSIX seconds)."""
    named = read_times(text, said_at, zone).ahead
    return any(first >= begin and end <= over for first, end in named for begin, over in days)


def spans(question: str, now: float, zone: ZoneInfo) -> list[Span]:
    """The times that a question names, half-open, in the order of the rules."""
    return read_times(question, now, zone).spans


def _month_of(match: re.Match[str], words: CalendarWords) -> int:
    return index_of(match["month"], words.month_forms, words.month_short) + 1


def _year_of(match: re.Match[str]) -> int:
    return int(match.groupdict().get("year") or 0)


def _unit_of(match: re.Match[str], words: CalendarWords) -> str:
    return list(words.units)[index_of(match["unit"], words.units.values())]


def _count_of(match: re.Match[str], words: CalendarWords) -> int:
    return number_of(match.groupdict().get("count") or "1", words)


def _date(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    return latest_date(_month_of(match, words), int(match["day"]), _year_of(match), today)


def _month(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    return latest_month(_month_of(match, words), _year_of(match), today)


def _year(match: re.Match[str], _: CalendarWords, __: date) -> Days:
    return months(int(match["year"]), 1, 12)


def _ago(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    """Days are exact, weeks are the calendar week that the day is in, months and years likewise."""
    return unit_of(_unit_of(match, words), today, -_count_of(match, words))


def _recent(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    """The last so many days, weeks, months or years, today with them."""
    lengths = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
    return today - timedelta(lengths[_unit_of(match, words)] * _count_of(match, words)), today + timedelta(1)


def _back(days: int) -> Reader:
    return lambda _, __, today: unit_of("day", today, -days)


def _calendar(back: int) -> Reader:
    """The present week, weekend, month, quarter or year (0), or the one before (1)."""

    def read(match: re.Match[str], words: CalendarWords, today: date) -> Days:
        unit = _unit_of(match, words)
        return latest_weekend(today, back) if unit == "weekend" else unit_of(unit, today, -back)

    return read


def _rest_of(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    """The present week, weekend, month, quarter or year from today on."""
    unit = _unit_of(match, words)
    first, end = (
        latest_weekend(today + timedelta(max(0, 5 - today.weekday()))) if unit == "weekend" else unit_of(unit, today)
    )
    return max(first, today), end


def _weekday(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    return latest_weekday(index_of(match["weekday"], words.weekday_forms), today)


def _nothing(*_: object) -> None:
    """The reading of a phrase that names no time in this direction."""


def _looks_back(match: re.Match[str], words: CalendarWords) -> bool:
    """Whether the phrase says "last", as in "last Friday" or "last August"."""
    return bool(re.search(with_or_without_accents(words.last), match[0]))


def _coming_weekday(match: re.Match[str], words: CalendarWords, today: date) -> Days | None:
    if _looks_back(match, words):
        return None
    turn = bool(re.search(with_or_without_accents(words.following), match[0]))
    return nearest_weekday(index_of(match["weekday"], words.weekday_forms), today, turn)


def _coming_date(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    month, day, year = _month_of(match, words), int(match["day"]), _year_of(match)
    return latest_date(month, day, year, today) if year else nearest_date(month, day, today)


def _coming_month(match: re.Match[str], words: CalendarWords, today: date) -> Days | None:
    return None if _looks_back(match, words) else nearest_month(_month_of(match, words), _year_of(match), today)


def _next_unit(match: re.Match[str], words: CalendarWords, today: date) -> Days:
    unit = _unit_of(match, words)
    if unit == "weekend":
        return latest_weekend(today + timedelta(7))
    return unit_of(unit, today, 1)


def _iso(match: re.Match[str], _: CalendarWords, __: date) -> Days:
    return one_day(date.fromisoformat(match[0]))


def _figures(match: re.Match[str], _: CalendarWords, __: date) -> Days:
    return one_day(date(int(match["year"]), int(match["month"]), int(match["day"])))


_FIGURES: list[tuple[str, Reader]] = [
    (r"\d{4}-\d\d-\d\d", _iso),
    (r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>(?:19|20)\d\d)", _figures),
]


def filled(pattern: str, language: str) -> str:
    """A pattern of time_phrases.py with the language's words in its braces; it matches with and without accents."""
    text = with_or_without_accents(pattern)
    for brace, meant in _placeholders(language).items():
        text = text.replace(brace, meant)
    return text


@cache
def _placeholders(language: str) -> dict[str, str]:
    """What the braces of time_phrases.py stand for."""
    words = WORDS[language]

    def units(*names: str) -> str:
        return f"(?P<unit>{either(words.units[name] for name in names)})"

    return {
        "{day}": r"(?P<day>\d{1,2})",
        "{month}": rf"(?P<month>{either([*words.month_forms, *words.month_short])})\.?",
        "{full_month}": f"(?P<month>{either(words.month_forms)})",
        "{weekday}": f"(?P<weekday>{either(words.weekday_forms)})",
        "{in_year}": PHRASES[language].in_year,
        "{year}": r"(?P<year>(?:19|20)\d\d)",
        "{count}": rf"(?P<count>\d{{1,3}}|{either(form for form, _ in words.counts())})",
        "{short_weekday}": f"(?P<weekday>{either(words.weekday_short)})" if words.weekday_short else "(?!)",
        "{unit}": units("day", "week", "month", "quarter", "year"),
        "{small_unit}": units("minute", "hour"),
        "{period}": units("weekend", "week", "month", "quarter", "year"),
        "{weekend}": units("weekend"),
        "{last}": either([words.last]),
        "{this}": either([words.this]),
        "{following}": either([words.following]),
        "{before_yesterday}": either([words.days[-2]]),
        "{yesterday}": either([words.days[-1]]),
        "{today}": either([words.days[0]]),
        "{in_1}": either([words.days[1]]),
        "{in_2}": either([words.days[2]]),
    }


def _phrases(language: str) -> Iterator[tuple[Sequence[str], Reader, Reader, bool]]:
    """Patterns, what they mean looking back and ahead, and whether they count from the day of asking, in the order in which they are tried."""
    said = PHRASES[language]
    # A weekday beside its date is no other day: "Friday, 20 November".
    yield [rf"(?:{{weekday}},? (?:\w{{1,3}} )?)?{dated}" for dated in said.dates], _date, _coming_date, False
    yield said.months, _month, _coming_month, False
    yield said.years, _year, _year, False
    yield said.ago, _ago, _nothing, True
    yield said.recent, _recent, _nothing, True
    for days, pattern in said.days_back.items():
        yield [pattern], _back(days), _nothing if days else _back(0), True
    if language in MORNINGS:
        yield [MORNINGS[language]], _nothing, _nothing, False
    for days in (2, 1):
        yield [f"{{in_{days}}}"], _nothing, _back(-days), True
    yield said.last, _calendar(1), _nothing, True
    yield said.this, _calendar(0), _rest_of, True
    yield ["{following} {period}", "{period} {following}"], _nothing, _next_unit, True
    yield said.ahead, _nothing, _coming_weekday, True
    yield [said.weekday], _weekday, _coming_weekday, True


@cache
def _rules(language: str) -> Sequence[_Rule]:
    """The rules for a message of this language, and those of English: "hier" is a time in French and a place in German."""
    if language not in PHRASES:
        return _rules("en")
    own = _rules("en") if language != "en" else ()
    figures = [_Rule(_whole(pattern), read, read, WORDS["en"], False) for pattern, read in _FIGURES]
    rules = figures if not own else []
    for patterns, read, ahead, from_now in _phrases(language):
        for pattern in patterns:
            rules.append(_Rule(_whole(filled(pattern, language)), read, ahead, WORDS[language], from_now))
    return [*rules, *own]


def _whole(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{pattern})(?!\w)")
