"""Times of day in dates that people write ("17:00 CET", "5 pm", "в 5 вечера", "tomorrow morning"), in English and Russian. Pure functions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timezone, tzinfo

from dispatcher.memory.dates.dateparser_dates import ask
from shared.text.format import one_line


@dataclass(frozen=True)
class Clock:
    """A time of day as said: `at` is None for the end of the day, `zone` None for the chat's."""

    at: time | None = None
    zone: tzinfo | None = None


_ZONE = r"(?: ?(?P<zone>utc|gmt|z|msk|мск|(?!night)[a-z]{2,4}t|[+-]\d\d:?\d\d)(?![\w:]))?"
_TIMES = re.compile(
    r"(?:(?:\bat|\bby|@|\bк|\bв|\bдо|,)? ?)(?<![\w:.])(?:"
    rf"(?P<spoken>~)?(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d)?(?: ?(?P<half>[ap])\.?m\b\.?)?{_ZONE}"
    rf"|(?P<hour12>0?[1-9]|1[0-2])(?:[:.](?P<minute12>[0-5]\d))? ?(?P<half12>[ap])\.?m\b\.?{_ZONE.replace('zone', 'zone12')}"
    r"|(?P<hour_ru>1?\d) (?:час\w* )?(?P<half_ru>утра|вечера|ночи)\b"
    r"|(?:(?<=\bв )|(?<=\bк )|(?<=\bдо ))(?P<hour_day>1?\d) (?:час\w* )?дня\b"  # "через 2 дня" is no time of day
    r"|(?P<noon>noon|midday|полдень|полудня|полудню)\b"
    r"|(?P<part>(?:(?P<said>this )|in the )?"
    r"(?:(?P<night>night|ночью)|(?P<end>midnight|tonight|evening|вечером|вечера|вечеру|полночь|полуночи)"
    r"|(?P<morning>morning|утром)|(?P<afternoon>afternoon|днем)))\b)"
    r"|\b(?:at|в) (?P<plain>[01]?\d|2[0-3])(?: ?o'?clock| час\w*)?(?= (?:on|this|next|today|tomorrow|во?|сегодня|завтра)\b|$)"
)


def split(words: str) -> tuple[str, Clock | None]:
    """The words without their time of day, and that: an hour, a part of the day ("evening"), or both. ValueError if the hour may be of two days."""
    part = exact = None
    for _ in range(2):
        match = _TIMES.search(words)
        if match is None or (part if match["part"] else exact):
            break
        part, exact = (match, exact) if match["part"] else (part, match)
        today = "today" if match["said"] or "tonight" in match[0] else ""
        words = one_line(f"{words[: match.start()]} {today} {words[match.end() :]}").strip(" ,")
    if exact:
        return words, _clock(exact, part, dated=bool(words))
    return words, part and Clock(time(12) if part["morning"] else time(18) if part["afternoon"] else None)


def _clock(match: re.Match[str], part: re.Match[str] | None, *, dated: bool) -> Clock:
    """A time of day. An hour is in the part of the day that is named; if none is, nor a time zone, 1 to 7 in one digit are in the
    afternoon: "at 3", "um halb 4" (which translations.py puts as ~3:30), but not "3:30", which is as written."""
    if match["noon"]:
        return Clock(time(12))
    written = match["hour"] or match["hour12"] or match["hour_ru"] or match["hour_day"] or match["plain"]
    hour, minute = int(written), int(match["minute"] or match["minute12"] or 0)
    spoken = match["spoken"] or match["plain"]
    half, zone = match["half"] or match["half12"], match["zone"] or match["zone12"]
    if hour == 12 and match["half_ru"] in ("ночи", "вечера"):
        return Clock()
    if half or match["half_ru"]:
        late = half == "p" or match["half_ru"] == "вечера" or (match["half_ru"] == "ночи" and hour > 5)
        hour = hour % 12 + 12 * late if hour <= 12 else hour
    elif part and (part["night"] or part["end"]):
        return _at_night(hour, minute, _offset(zone), early=5 if part["night"] else 4, dated=dated)
    elif hour < 12 and (
        match["hour_day"] or (not part["morning"] if part else spoken and written in {*"1234567"} and not zone)
    ):
        hour += 12
    return Clock(time(hour, minute), _offset(zone))


def _at_night(hour: int, minute: int, zone: tzinfo | None, *, early: int, dated: bool) -> Clock:
    """12 is the midnight that ends the day. From then to `early` o'clock it may be the night before the day or the one after: ValueError."""
    if (hour, minute, zone) == (12, 0, None):
        return Clock()
    if hour % 12 <= early and hour <= 12:
        if dated:
            raise ValueError(hour)
        return Clock(time(hour % 12, minute), zone)
    return Clock(time(hour + 12 * (hour < 12), minute), zone)


def _offset(name: str | None) -> tzinfo | None:
    """What a zone's short name or offset means; ValueError if it is none."""
    if name is None:
        return None
    noon = datetime(2000, 1, 1, 12, tzinfo=UTC)
    found, _ = ask(f"1 January 2000 12:00 {name.replace('мск', 'msk').upper()}", PARSERS=["absolute-time"])
    if found is None or found.tzinfo is None:
        raise ValueError(name)
    return timezone(noon - found)
