"""Times to come as people type them: "tomorrow at 9", "kommenden Montag", "к концу месяца", "fin de mes", "2026-12-01 17:00". Pure functions.

The phrases of seven languages are those of shared/text/dates/phrases.toml; here is the time of day, and what is written in figures. The chat's
language is tried first, then the others; what none of them reads is left to dateparser, in the chat's language. In figures, 12.01.2026 is 12 January
(dots are the European habit); 12/01 is one day in America and another in Europe, so it is refused. An hour is as written: "tomorrow at 7" is 07:00.
"""

from __future__ import annotations

import re
import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from shared.text.dates.calendar_days import Days, end_of_day, instant, nearest_date, one_day
from shared.text.dates.calendar_words import WORDS, either, index_of, number_of, with_or_without_accents
from shared.text.dates.named_times import coming_days, filled
from shared.text.format import one_line
from shared.text.times import moment
from shared.text.translations import current_language

#: Further away than this is no date. Seconds.
FARTHEST = 50 * 365.25 * 86_400
#: Longer texts name more than a date. Characters.
MOST_CHARACTERS = 100
#: The time of day of a reminder for which none is named.
MORNING = time(9)


@dataclass(frozen=True)
class ComingTime:
    """`at`: until when it is (POSIX seconds): a time of day, or the last second of the last day. `starts`: when a reminder of it is due: that time
    of day, or MORNING of the first day."""

    at: float
    starts: float


_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[t ]")
_FIGURES = re.compile(r"(?P<first>\d{1,2})(?P<mark>[./])(?P<second>\d{1,2})(?:[./](?P<year>(?:19|20)\d\d)|\.)?")
_SLASHES = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})(?:/(?P<year>(?:\d\d){1,2}))?(?![\d/])")
_HALF_HOUR = re.compile(
    "half an? hour|(?:eine[rm]? )?halben? stunde|une demi-heure|media hora|mezz['’]?ora|meia hora|полчаса"
)
#: What is worth asking dateparser: it takes "a", "5" and "1 a" for dates, too.
_WORTH = re.compile(r"[^\W\d_]{3,}|\d[./-]\d")
#: Parts of a day that only today has.
_TODAY = re.compile(r"tonight|this (?:morning|afternoon|evening)|ce soir|esta noche|stasera")
_ASKING = threading.Lock()


def read_coming(text: str, now: float, zone: ZoneInfo, *, loosely: bool = False) -> ComingTime | None:
    """The time that a text names, and nothing else, seen from `now` (POSIX seconds) in `zone`; None if it is none, or over 50 years away. It may be
    past if it names a day or a moment that is. `loosely`: dateparser is asked, too, which leaves out words that it does not know. Never raises."""
    words = one_line(text[: 4 * MOST_CHARACTERS]).lower().strip(" ,;!?()[]\"'«»“”")
    if not 0 < len(words) <= MOST_CHARACTERS:
        return None
    found = None
    with suppress(ValueError):  # it only begins like one
        if _MOMENT.match(words) and (at := moment(words.upper(), zone)) is not None:
            found = ComingTime(at, at)
    for language in languages_tried():
        with suppress(ValueError, OverflowError):  # a 32nd, an hour of 25, a year outside the calendar
            found = found or _read(words, now, zone, language)
    if found is None:
        found = _parsed(words, now, zone) if loosely and not ambiguous(words) else None
    return found if found and abs(found.at - now) <= FARTHEST else None


def languages_tried() -> list[str]:
    """The chat's language, and then the others."""
    return list(dict.fromkeys([current_language(), *WORDS]))


def ambiguous(text: str) -> bool:
    """Whether a date in slashes is one day in America and another one in Europe."""
    found = _SLASHES.search(text)
    return bool(found) and found[1] != found[2] and max(int(found[1]), int(found[2])) <= 12  # type: ignore[index]


def both_readings(text: str, today: date) -> tuple[tuple[date, str], ...]:
    """Of a text with such a date the two days that it may mean, each with the text in which it stands in ISO 8601; none of any other text."""
    found = _SLASHES.search(text)
    if not found or not ambiguous(text):
        return ()
    first, second, year = int(found[1]), int(found[2]), int(found["year"] or 0)
    days = [
        date(year + 2000 * (year < 100), month, day) if year else nearest_date(month, day, today)[0]
        for month, day in ((second, first), (first, second))
    ]
    return tuple((day, f"{text[: found.start()]}{day}{text[found.end() :]}") for day in days)


def take_clock(words: str, language: str) -> tuple[str, time | None, bool]:
    """The words without their time of day; that, if they name one; whether only today has it ("tonight"). ValueError for an hour that no day has."""
    exact, parts = _clocks(language)
    hour = next((match for pattern in exact if (match := pattern.search(words))), None)
    if hour:
        words = _without(words, hour)
    part = next(((match, at) for pattern, at in parts if (match := pattern.search(words))), None)
    if part:
        words = _without(words, part[0])
    today = bool(part and _TODAY.fullmatch(part[0][0]))
    if hour is None:
        return words, time(part[1]) if part else None, today
    said = hour.groupdict()
    number, half = int(said["hour"]), said.get("half")
    if half:
        if not 1 <= number <= 12:
            raise ValueError(number)
        number = number % 12 + 12 * (half == "p")
    elif part and part[1] > 12 and number < 12:
        number += 12
    return words, time(number, int(said.get("minute") or said.get("past") or 0)), today


def _without(words: str, match: re.Match[str]) -> str:
    return one_line(f"{words[: match.start()]} {words[match.end() :]}").strip(" ,")


@cache
def _clocks(language: str) -> tuple[list[re.Pattern[str]], list[tuple[re.Pattern[str], int]]]:
    """What finds an hour, the most exact first, and a part of the day with its hour."""
    known, said = WORDS[language], WORDS[language]["coming"]
    ahead, after = (with_or_without_accents(said[words]) for words in ("hour", "oclock"))
    begin, half = r"(?<![\w:.])(?P<hour>\d{1,2})", r"(?P<half>[ap])\.?m\b\.?"
    spans = [form for unit, form in known["units"].items() if unit != "hour"]
    date_ahead = either([*known["months"], *known["month_short"], *spans])
    exact = [
        rf"(?:(?<!\w)(?:{ahead}) )?{begin}(?::(?P<minute>\d\d)| ?h ?(?P<past>\d\d))(?::\d\d)?(?: ?{half}|(?: ?(?:{after}))?(?![\w:]))",
        rf"(?:(?<!\w)(?:{ahead}) )?{begin} ?{half}",
        rf"(?<!\w)(?:{ahead}) {begin}(?!\d|[.:/-]\d|\.? ?(?:de )?{date_ahead}(?!\w))(?: ?(?:{after}))?(?!\w)",
        rf"{begin} ?(?:{after})(?!\w)",
    ]
    parts = {rf"(?<!\w)(?:{with_or_without_accents(part)})(?!\w)": int(at) for at, part in said["parts"].items()}
    return [re.compile(one) for one in exact], [(re.compile(one), at) for one, at in parts.items()]


def _read(words: str, now: float, zone: ZoneInfo, language: str) -> ComingTime | None:
    """The same in one language, without what is refused."""
    words, clock, only_today = take_clock(words, language)
    lead = with_or_without_accents(WORDS[language]["coming"]["lead"])
    bare = re.sub(rf"^(?:{lead}\s+)+", "", f"{words} ").strip()
    today = datetime.fromtimestamp(now, zone).date()
    if clock and not bare:
        at = instant(today, clock, zone)
        if at <= now and not only_today:
            at = instant(today + timedelta(1), clock, zone)
        return ComingTime(at, at)
    if clock is None and (seconds := _counted(words, language)):
        return ComingTime(now + seconds, now + seconds)
    if match := _FIGURES.fullmatch(bare):
        days = _of_figures(match, today)
    else:
        days = coming_days(words, today, language) or coming_days(bare, today, language)
    if days is None or _other_weekday(words, days, language):
        return None
    return _of_days(days, clock, now, zone)


def _of_days(days: Days, clock: time | None, now: float, zone: ZoneInfo) -> ComingTime:
    first, last = days[0], days[1] - timedelta(1)
    starts = instant(first, clock or MORNING, zone)
    if clock:
        return ComingTime(starts, starts)
    if starts <= now and first < last:
        starts = instant(first + timedelta(1), MORNING, zone)
    return ComingTime(end_of_day(last, zone), starts)


def _counted(words: str, language: str) -> float | None:
    """Seconds of "in 2 hours 30 minutes"."""
    within, hour = (
        with_or_without_accents(one) for one in (WORDS[language]["coming"]["within"], WORDS[language]["units"]["hour"])
    )
    match = re.fullmatch(rf"(?:(?:{within}) )?(.+)", words)
    if match is None or (match.start(1) == 0 and not _HALF_HOUR.fullmatch(words)):
        return None
    if _HALF_HOUR.fullmatch(match[1]):
        return 1_800.0
    spans = re.compile(filled(r"(?:{count} )?{small_unit}(?!\w)[ ,]*", language))
    found = list(spans.finditer(match[1]))
    if not found or spans.sub("", match[1]):
        return None
    return float(
        sum(
            number_of(one["count"] or "1", WORDS[language]) * (3_600 if re.fullmatch(hour, one["unit"]) else 60)
            for one in found
        )
    )


def _of_figures(match: re.Match[str], today: date) -> Days | None:
    """`3.12.`, `3.12.2026`, `25/12`: the day first, unless no month has that number."""
    first, second, year = int(match["first"]), int(match["second"]), match["year"]
    if match["mark"] == "/" and ambiguous(match[0]):
        return None
    day, month = (second, first) if match["mark"] == "/" and second > 12 else (first, second)
    return one_day(date(int(year), month, day)) if year else nearest_date(month, day, today)


def _other_weekday(words: str, days: Days, language: str) -> bool:
    """Whether a date is named with a weekday that it is not."""
    for one in {language, "en"}:  # a language's phrases include the English ones
        named = re.search(filled(r"\b{weekday}(?!\w)", one), words)
        if named and index_of(named["weekday"], WORDS[one]["weekdays"]) != days[0].weekday():
            return days[1] - days[0] == timedelta(1)
    return False


def _parsed(words: str, now: float, zone: ZoneInfo) -> ComingTime | None:
    """What dateparser knows in the chat's language; one thread at a time, for its warnings are turned off for the while."""
    if not _WORTH.search(words):
        return None
    base = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
    settings = {
        "PREFER_DATES_FROM": "future", "RELATIVE_BASE": base, "RETURN_TIME_AS_PERIOD": True,
        "REQUIRE_PARTS": ["day", "month"], "PARSERS": ["relative-time", "absolute-time"], "DATE_ORDER": "DMY",
    }  # fmt: skip
    with _ASKING, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # strptime's of days without a year, from Python 3.13 on
        from dateparser.date import DateDataParser

        try:
            answer = DateDataParser(languages=[current_language()], settings=settings).get_date_data(words)
        except Exception:  # noqa: BLE001 - it raises anything on odd texts, and what it cannot read is no date
            return None
    found = answer.date_obj
    if found is None or found.tzinfo is not None or not timedelta() < found - base < timedelta(seconds=FARTHEST):
        return None
    days = one_day(found.date())
    if answer.period != "time" and (":" in words or _other_weekday(words, days, current_language())):
        return None
    return _of_days(days, found.time() if answer.period == "time" else None, now, zone)
