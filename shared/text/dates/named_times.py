"""The times that a text names ("last week", "in May", "vor zwei Tagen"), as spans, in the chat's time zone. Pure functions.

Looking back, a span is what was said then: a month or weekday without a year or date is the latest that has begun. Looking ahead ("this week",
"tomorrow", "on Friday") it is what is planned for then: the nearest to come; a deadline or reminder has a few phrases more ("in 3 days", "end of
month"). Seasons are left out (they differ by hemisphere), and so is what names no time of a calendar ("recently", "after lunch").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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
    nearest_day_of_month,
    nearest_month,
    nearest_weekday,
    one_day,
    unit_of,
)
from shared.text.dates.calendar_words import (
    WORDS,
    CalendarWords,
    counts,
    either,
    index_of,
    number_of,
    with_or_without_accents,
)
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


@dataclass(frozen=True)
class _Said:
    """What a phrase says, in the words of its language, seen from today. ValueError for what no calendar has."""

    match: re.Match[str]
    words: CalendarWords
    today: date

    def _group(self, name: str, default: str = "0") -> str:
        return self.match.groupdict().get(name) or default

    @property
    def day(self) -> int:
        return int(self._group("day"))

    @property
    def month(self) -> int:
        return index_of(self._group("month"), self.words["months"], self.words["month_short"]) + 1

    @property
    def year(self) -> int:
        """0 if it names none."""
        return int(self._group("year"))

    @property
    def weekday(self) -> int:
        return index_of(self._group("weekday"), self.words["weekdays"], self.words["weekday_short"])

    @property
    def unit(self) -> str:
        return tuple[str, ...](self.words["units"])[index_of(self._group("unit"), self.words["units"].values())]

    @property
    def count(self) -> int:
        return number_of(self._group("count", "1"), self.words)

    def has(self, kind: str) -> bool:
        """Whether it says "last", or "following", as in "last Friday" or "next August"."""
        return re.search(with_or_without_accents(self.words[kind]), self.match[0]) is not None


def _coming_date(said: _Said) -> Days:
    if said.year:
        return one_day(date(said.year, said.month, said.day))
    return nearest_date(said.month, said.day, said.today)


def _recent(said: _Said) -> Days:
    """The last so many days, weeks, months or years, today with them."""
    lengths = {"day": 1, "week": 7, "month": 30, "quarter": 91, "year": 365}
    return said.today - timedelta(lengths[said.unit] * said.count), said.today + timedelta(1)


def _period(said: _Said, turn: int) -> Days:
    """The present week, weekend, month, quarter or year (0), or the one before (-1)."""
    return latest_weekend(said.today, -turn) if said.unit == "weekend" else unit_of(said.unit, said.today, turn)


def _rest_of(said: _Said) -> Days:
    """The present week, weekend, month, quarter or year from today on."""
    first, end = (
        latest_weekend(said.today + timedelta(max(0, 5 - said.today.weekday())))
        if said.unit == "weekend"
        else unit_of(said.unit, said.today)
    )
    return max(first, said.today), end


def _next(said: _Said) -> Days:
    if said.unit == "weekend":
        return latest_weekend(said.today + timedelta(7))
    return unit_of(said.unit, said.today, 1)


def _coming_weekday(said: _Said) -> Days | None:
    return None if said.has("last") else nearest_weekday(said.weekday, said.today, said.has("following"))


def _within(said: _Said) -> Days:
    """So many days, weeks, months or years from today; a shorter month has its last day."""
    if said.unit in ("day", "week"):
        return one_day(said.today + timedelta(said.count * (7 if said.unit == "week" else 1)))
    ahead = said.count * {"month": 1, "quarter": 3, "year": 12}[said.unit]
    first, end = months(said.today.year, said.today.month + ahead)
    return one_day(min(first + timedelta(said.today.day - 1), end - timedelta(1)))


def _end(said: _Said) -> Days:
    """The last day of a week, month, quarter or year."""
    turn = said.has("following")
    if said.match["month"]:
        _, end = nearest_month(said.month, 0, said.today, turn)
    else:
        _, end = unit_of("week" if said.unit == "weekend" else said.unit, said.today, turn)
    return one_day(end - timedelta(1))


def _exact(said: _Said) -> Days:
    return one_day(date(said.year, int(said.match["month"]), said.day))


def _nothing(_: _Said) -> None:
    """The reading of a phrase that names no time in this direction."""


Reader = Callable[[_Said], Days | None]
#: What the phrases of each kind mean, looking back and ahead. Days are exact, "two weeks ago" is a week of the calendar, months and years likewise.
_READERS: dict[str, tuple[Reader, Reader]] = {
    "figures": (_exact, _exact),
    "date": (lambda said: latest_date(said.month, said.day, said.year, said.today), _coming_date),
    "month": (
        lambda said: latest_month(said.month, said.year, said.today),
        lambda said: None if said.has("last") else nearest_month(said.month, said.year, said.today),
    ),
    "year": (lambda said: months(said.year, 1, 12),) * 2,
    "ago": (lambda said: unit_of(said.unit, said.today, -said.count), _nothing),
    "recent": (_recent, _nothing),
    "before_yesterday": (lambda said: unit_of("day", said.today, -2), _nothing),
    "yesterday": (lambda said: unit_of("day", said.today, -1), _nothing),
    "today": (lambda said: one_day(said.today),) * 2,
    "morning": (_nothing, _nothing),
    "after_tomorrow": (_nothing, lambda said: unit_of("day", said.today, 2)),
    "tomorrow": (_nothing, lambda said: unit_of("day", said.today, 1)),
    "last": (lambda said: _period(said, -1), _nothing),
    "this": (lambda said: _period(said, 0), _rest_of),
    "next": (_nothing, _next),
    "ahead": (_nothing, _coming_weekday),
    "weekday": (lambda said: latest_weekday(said.weekday, said.today), _coming_weekday),
    "day_of_month": (_nothing, lambda said: nearest_day_of_month(said.day, said.today)),
    "short_weekday": (_nothing, lambda said: nearest_weekday(said.weekday, said.today)),
    "within": (_nothing, _within),
    "end": (_nothing, _end),
}
#: They do not count from the day of asking, or are a date or month, which are as often what was spoken of as when.
_NOT_FROM_NOW = ("figures", "date", "month", "year", "morning")
_FIGURES = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
    r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>(?:19|20)\d\d)",
)


@dataclass(frozen=True)
class _Rule:
    kind: str
    pattern: re.Pattern[str]
    words: CalendarWords

    def days(self, match: re.Match[str], today: date, *, ahead: bool = False) -> Days | None:
        """Nothing for a 30th of February or a year before the calendar."""
        try:
            return _READERS[self.kind][ahead](_Said(match, self.words, today))
        except (ValueError, OverflowError):
            return None


def read_times(question: str, now: float, zone: ZoneInfo, language: str = "") -> Times:
    """What a question names, seen from `now` (POSIX seconds) in `zone`; each word counts once, the longest phrase first. `language`: one of
    WORDS, where it is known."""
    today = datetime.fromtimestamp(now, zone).date()
    left = rest = one_line(question).lower()
    found, ahead, from_now = list[Days](), list[Days](), False
    for rule in rules(language or language_of(_WORD.findall(left))):
        matches = list(rule.pattern.finditer(left))
        named = [days for match in matches if (days := rule.days(match, today)) is not None]
        coming = [days for match in matches if (days := rule.days(match, today, ahead=True)) is not None]
        left = rule.pattern.sub(" . ", left)
        if rule.kind not in _NOT_FROM_NOW and any(end - first <= LATELY for first, end in (*named, *coming)):
            from_now, rest = True, rule.pattern.sub(" ", rest)
        found += named
        ahead += [(first, end) for first, end in coming if end > today]
    past, future = (
        [(midnight(first, zone), midnight(end, zone)) for first, end in dict.fromkeys(some)] for some in (found, ahead)
    )
    return Times(past, from_now, rest, left, tuple(future))


def coming_days(words: str, today: date, language: str) -> Days | None:
    """The days to come that a phrase in lower case is, and nothing else; None for any other text. `language`: one of WORDS."""
    for rule in (*_coming_rules(language), *rules(language)):
        if (match := rule.pattern.fullmatch(words)) and (days := rule.days(match, today, ahead=True)):
            return days
    return None


def names_one_of(days: Sequence[Span], text: str, said_at: float, zone: ZoneInfo) -> bool:
    """Whether a text names one of these times, or a part of it, seen from when it was said (POSIX seconds)."""
    named = read_times(text, said_at, zone).ahead
    return any(first >= begin and end <= over for first, end in named for begin, over in days)


def filled(pattern: str, language: str) -> str:
    """A pattern of phrases.toml with the language's words in its braces; it matches with and without accents."""
    text = with_or_without_accents(pattern).replace("{in_year}", WORDS[language]["in_year"])
    for brace, meant in _placeholders(language).items():
        text = text.replace(brace, meant)
    return text


@cache
def _placeholders(language: str) -> dict[str, str]:
    """What the braces of phrases.toml stand for."""
    words = WORDS[language]
    units = {
        "{unit}": ("day", "week", "month", "quarter", "year"),
        "{small_unit}": ("minute", "hour"),
        "{period}": ("weekend", "week", "month", "quarter", "year"),
        "{weekend}": ("weekend",),
    }
    days = ("before_yesterday", "yesterday", "today", "in_1", "in_2")
    return {
        "{day}": r"(?P<day>\d{1,2})",
        "{month}": rf"(?P<month>{either([*words['months'], *words['month_short']])})\.?",
        "{full_month}": f"(?P<month>{either(words['months'])})",
        "{weekday}": f"(?P<weekday>{either(words['weekdays'])})",
        "{short_weekday}": f"(?P<weekday>{either(words['weekday_short'] or ['(?!)'])})",
        "{year}": r"(?P<year>(?:19|20)\d\d)",
        "{count}": rf"(?P<count>\d{{1,3}}|{either(form for form, _ in counts(words))})",
        **{name: f"(?P<unit>{either(words['units'][one] for one in some)})" for name, some in units.items()},
        **{f"{{{kind}}}": either([words[kind]]) for kind in ("last", "this", "following")},
        **{f"{{{name}}}": either([form]) for name, form in zip(days, words["days"], strict=True)},
    }


def _made(kind: str, pattern: str, language: str) -> _Rule:
    return _Rule(kind, re.compile(rf"\b(?:{filled(pattern, language)})(?!\w)"), WORDS[language])


@cache
def rules(language: str) -> Sequence[_Rule]:
    """The rules for a message of this language, and those of English: "hier" is a time in French and a place in German."""
    if language not in WORDS:
        return rules("en")
    own = [_made(kind, one, language) for kind, some in WORDS[language]["phrases"].items() for one in some]
    if language != "en":
        return (*own, *rules("en"))
    return (*(_made("figures", one, "en") for one in _FIGURES), *own)


@cache
def _coming_rules(language: str) -> Sequence[_Rule]:
    """What only a deadline or a reminder has."""
    said = WORDS[language]["coming"]
    phrases = {
        "day_of_month": said["day_of_month"],
        "short_weekday": ["(?:{following} )?{short_weekday}"],
        "within": [f"(?:{said['within']}) (?:{{count}} )?{{unit}}"],
        "end": [f"(?:{said['end']}) ?(?:{{this}} |{{following}} )?(?:{{period}}|{{full_month}})"],
    }
    return [_made(kind, one, language) for kind, some in phrases.items() for one in some]
