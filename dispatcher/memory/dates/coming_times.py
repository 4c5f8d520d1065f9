"""Times to come as people type them: "tomorrow at 9", "kommenden Montag", "к концу месяца", "fin de mes", "2026-12-01 17:00". Pure functions.

The calendar's words and phrases of seven languages are those by which questions are read (shared/text/dates/named_times.py). Here is what only a
deadline or a reminder has: "in 3 days", "end of month", the time of day. The chat's language is tried first, then the others; what none of them
reads is left to dateparser, in the chat's language. In figures, 12.01.2026 is 12 January (dots are the European habit); 12/01 is one day in
America and another in Europe, so it is refused. An hour is as written: "tomorrow at 7" is 07:00.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.wall_clock import wall_moment
from shared.text.dates.calendar_days import (
    Days,
    end_of_day,
    months,
    nearest_date,
    nearest_day_of_month,
    nearest_month,
    nearest_weekday,
    one_day,
    unit_of,
)
from shared.text.dates.calendar_words import WORDS, either, index_of, number_of, with_or_without_accents
from shared.text.dates.named_times import coming_days, filled
from shared.text.format import one_line
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


@dataclass(frozen=True)
class TypedPhrases:
    """What one language adds to its PHRASES: words ahead of a date, "in" of a span, "end of", words ahead of an hour, and parts of the day."""

    lead: str
    within: str
    end: str
    day: str  # of a month, in figures
    hour: str
    oclock: str
    parts: Mapping[str, int] = field(default_factory=dict)


TYPED: Mapping[str, TypedPhrases] = {
    "en": TypedPhrases(
        "(?:due|by|on|until|till|for|no later than|in|the|this coming|coming)",
        "in(?: the next)?|within", "(?:the )?end of(?: the)?", r"(?:the )?{day}(?:st|nd|rd|th)", "at|by|@", "o'?clock",
        {"(?:in the |this )?morning": 9, "noon|midday": 12, "(?:in the |this )?afternoon": 15, "(?:in the |this )?evening|tonight|night": 20},
    ),
    "de": TypedPhrases(
        "(?:bis|spätestens|am|zum|den|der|im)",
        "in", "(?:zum )?ende(?: de[sr]| diese[sr])?", r"{day}\.", "um|gegen|ab", "uhr",
        {"früh|morgens|vormittags?": 9, "mittags?": 12, "nachmittags?": 15, "abends?": 20},
    ),
    "fr": TypedPhrases(
        "(?:avant|pour|d['’]ici|le|la|au|en|à)",
        "dans|d['’]ici", "(?:à )?(?:la )?fin (?:du|de l['’]|de la|de|d['’])?", r"le {day}|(?:le )?{day}er", "à|vers", "h(?:eures?)?",
        {"(?:du |le )?matin": 9, "(?:à )?midi": 12, "(?:de l['’])?après-midi": 15, "(?:du |ce |le )?soir": 20},
    ),
    "es": TypedPhrases(
        "(?:antes de|para|hasta|el|la|a|en)",
        "en|dentro de", "(?:a )?(?:el )?fin(?:al)?(?:es)? (?:de|del)(?: la)?", r"el {day}|(?:el )?día {day}", "a las?|sobre las?", "h(?:oras?)?",
        {"(?:por|de) la mañana": 9, "(?:a )?mediodía": 12, "(?:por|de) la tarde": 15, "(?:por|de|esta) (?:la )?noche": 20},
    ),
    "it": TypedPhrases(
        "(?:entro|per|prima di|il|la|lo)",
        "tra|fra|entro", "(?:la )?fine (?:del|della|dell['’])?", r"il {day}", "alle?|all['’]|verso le|ore", "ore",
        {"(?:di |della )?mattina": 9, "(?:a )?mezzogiorno": 12, "(?:del )?pomeriggio": 15, "(?:di |della )?sera|stasera": 20},
    ),
    "pt": TypedPhrases(
        "(?:até|para|antes de|o|a|no|na|em)",
        "em|daqui a|dentro de", "(?:o )?(?:fim|final) d[oae]", r"(?:o )?dia {day}", "às?|as|pelas", "h(?:oras?)?",
        {"(?:de|da|pela) manhã": 9, "(?:ao )?meio-dia": 12, "(?:de|da|à) tarde": 15, "(?:de|da|à) noite": 20},
    ),
    "ru": TypedPhrases(
        "(?:не позднее|не позже|к|ко|до|в|во|на)",
        "через|в течение", "(?:кон(?:ец|ца|цу|це))", r"{day}(?:-?(?:го|е|му)(?: числа)?| числа)", "в|к|около|до", "ч(?:ас(?:а|ов)?)?",
        {"утр(?:а|ом)": 9, "полдень|днём|днем": 12, "вечер(?:а|ом)": 20},
    ),
}  # fmt: skip
_FIGURES = re.compile(r"(?P<first>\d{1,2})(?P<mark>[./])(?P<second>\d{1,2})(?:[./](?P<year>(?:19|20)\d\d)|\.)?")
_SLASHES = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})(?:/\d{2,4})?(?![\d/])")
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
    for language in dict.fromkeys([current_language(), *TYPED]):
        try:
            found = _iso(words, zone) or _read(words, now, zone, language)
        except (ValueError, OverflowError):  # a 32nd, an hour of 25, a year outside the calendar
            continue
        if found is not None:
            return found if abs(found.at - now) <= FARTHEST else None
    return _parsed(words, now, zone) if loosely and not ambiguous(words) else None


def ambiguous(text: str) -> bool:
    """Whether a date in slashes is one day in America and another one in Europe."""
    found = _SLASHES.search(text)
    return bool(found) and found[1] != found[2] and max(int(found[1]), int(found[2])) <= 12  # type: ignore[index]


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
    said = TYPED[language]
    ahead, after = (with_or_without_accents(words) for words in (said.hour, said.oclock))
    begin, half = r"(?<![\w:.])(?P<hour>\d{1,2})", r"(?P<half>[ap])\.?m\b\.?"
    known = WORDS[language]
    spans = [form for unit, form in known.units.items() if unit != "hour"]
    date_ahead = either([*known.month_forms, *known.month_short, *spans])
    exact = [
        rf"(?:(?<!\w)(?:{ahead}) )?{begin}(?::(?P<minute>\d\d)| ?h ?(?P<past>\d\d))(?::\d\d)?(?: ?{half}|(?: ?(?:{after}))?(?![\w:]))",
        rf"(?:(?<!\w)(?:{ahead}) )?{begin} ?{half}",
        rf"(?<!\w)(?:{ahead}) {begin}(?!\d|[.:/-]\d|\.? ?(?:de )?{date_ahead}(?!\w))(?: ?(?:{after}))?(?!\w)",
        rf"{begin} ?(?:{after})(?!\w)",
    ]
    parts = [(re.compile(rf"(?<!\w)(?:{with_or_without_accents(part)})(?!\w)"), at) for part, at in said.parts.items()]
    return [re.compile(pattern) for pattern in exact], parts


def _iso(words: str, zone: ZoneInfo) -> ComingTime | None:
    """`2026-12-01T17:00Z`, a moment, in the chat's zone without an offset; a day alone is read as other days are."""
    if not re.match(r"\d{4}-\d\d-\d\d[t ]", words):
        return None
    try:
        moment = datetime.fromisoformat(words.upper())
    except ValueError:
        return None
    at = moment.timestamp() if moment.tzinfo else wall_moment(moment.date(), moment.time(), zone)
    return ComingTime(at, at)


def _read(words: str, now: float, zone: ZoneInfo, language: str) -> ComingTime | None:
    """The same in one language, without what is refused."""
    words, clock, only_today = take_clock(words, language)
    bare = re.sub(rf"^(?:{with_or_without_accents(TYPED[language].lead)}\s+)+", "", f"{words} ").strip()
    today = datetime.fromtimestamp(now, zone).date()
    if clock and not bare:
        at = wall_moment(today, clock, zone)
        if at <= now and not only_today:
            at = wall_moment(today + timedelta(1), clock, zone)
        return ComingTime(at, at)
    if clock is None and (seconds := _counted(words, language)):
        return ComingTime(now + seconds, now + seconds)
    days = _days(words, today, language) or _days(bare, today, language)
    if days is None or _other_weekday(words, days, language):
        return None
    return _of_days(days, clock, now, zone)


def _of_days(days: Days, clock: time | None, now: float, zone: ZoneInfo) -> ComingTime:
    first, last = days[0], days[1] - timedelta(1)
    starts = wall_moment(first, clock or MORNING, zone)
    if clock:
        return ComingTime(starts, starts)
    if starts <= now and first < last:
        starts = wall_moment(first + timedelta(1), MORNING, zone)
    return ComingTime(end_of_day(last, zone), starts)


def _counted(words: str, language: str) -> float | None:
    """Seconds of "in 2 hours 30 minutes"."""
    within, units = TYPED[language].within, WORDS[language].units
    match = re.fullmatch(rf"(?:(?:{with_or_without_accents(within)}) )?(.+)", words)
    if match is None or (match.start(1) == 0 and not _HALF_HOUR.fullmatch(words)):
        return None
    if _HALF_HOUR.fullmatch(match[1]):
        return 1_800.0
    spans = re.compile(filled(r"(?:{count} )?{small_unit}(?!\w)[ ,]*", language))
    found = list(spans.finditer(match[1]))
    if not found or spans.sub("", match[1]):
        return None
    minutes = [number_of(one["count"] or "1", WORDS[language]) for one in found]
    hours = [re.fullmatch(with_or_without_accents(units["hour"]), one["unit"]) for one in found]
    return float(sum(count * (3_600 if hour else 60) for count, hour in zip(minutes, hours, strict=True)))


def _days(words: str, today: date, language: str) -> Days | None:
    """The days that a phrase is; ValueError for what no calendar has."""
    said, known = TYPED[language], WORDS[language]
    if match := _FIGURES.fullmatch(words):
        return _of_figures(match, today)
    if match := _phrase(said.day.replace("{day}", r"(\d{1,2})"), language).fullmatch(words):
        return nearest_day_of_month(int(next(filter(None, match.groups()))), today)
    if match := _phrase("(?:{following} )?{short_weekday}", language).fullmatch(words):
        return nearest_weekday(index_of(match["weekday"], known.weekday_short), today)
    if match := _phrase(f"(?:{said.within}) (?:{{count}} )?{{unit}}", language).fullmatch(words):
        return _after(number_of(match["count"] or "1", known), _unit(match["unit"], language), today)
    if match := _phrase(
        f"(?:{said.end}) ?(?:{{this}} |(?P<next>{{following}}) )?(?:{{period}}|{{full_month}})", language
    ).fullmatch(words):
        return _end(match, today, language)
    return coming_days(words, today, language)


@cache
def _phrase(pattern: str, language: str) -> re.Pattern[str]:
    return re.compile(filled(pattern, language))


def _unit(said: str, language: str) -> str:
    units = WORDS[language].units
    return list(units)[index_of(said, units.values())]


def _after(count: int, unit: str, today: date) -> Days:
    """So many days, weeks, months or years from today; a shorter month has its last day."""
    if unit in ("day", "week"):
        return one_day(today + timedelta(count * (7 if unit == "week" else 1)))
    first, end = months(today.year, today.month + count * {"month": 1, "quarter": 3, "year": 12}[unit])
    return one_day(min(first + timedelta(today.day - 1), end - timedelta(1)))


def _end(match: re.Match[str], today: date, language: str) -> Days:
    """The last day of a week, month, quarter or year."""
    turn = int(bool(match["next"]))
    if match["month"]:
        _, end = nearest_month(index_of(match["month"], WORDS[language].month_forms) + 1, 0, today, turn)
    else:
        unit = _unit(match["unit"], language)
        _, end = unit_of("week" if unit == "weekend" else unit, today, turn)
    return one_day(end - timedelta(1))


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
        named = _phrase(r"\b{weekday}(?!\w)", one).search(words)
        if named and index_of(named["weekday"], WORDS[one].weekday_forms) != days[0].weekday():
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
