"""The days that a message names, counted from the day on which it was said. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.coming_times import read_coming
from shared.text.caches import cached
from shared.text.dates.calendar_words import WORDS
from shared.text.dates.named_times import read_times

#: Words of the longest date: "on the second Friday of next month" is none, "am 14. November 2026 um 7" is.
MOST_WORDS = 6
#: Characters of a message that are looked through.
MOST_CHARACTERS = 1_500
_SECONDS_OF_A_DAY = 86_400


@cached(2_000)
def days_named(text: str, said_at: float, zone: ZoneInfo) -> frozenset[date]:
    """Every day that some words of the text mean, to come or past. Seconds of work for a long text."""
    words = re.findall(r"\S+", text[:MOST_CHARACTERS])
    starts = [one.starts for piece in _pieces(words) if (one := read_coming(piece, said_at, zone))]
    for language in WORDS:
        spans = read_times(text[:MOST_CHARACTERS], said_at, zone, language).spans
        starts += [first for first, end in spans if end - first <= 1.1 * _SECONDS_OF_A_DAY]
    found = set[date]()
    for start in starts:
        # 0001-01-01, which stands for no date in many logs, is in the year 0 in some zones.
        with suppress(ValueError, OverflowError, OSError):
            found.add(datetime.fromtimestamp(start, zone).date())
    return frozenset(found)


def forms_of(day: date) -> set[str]:
    """How the parts of a day are written, as `details_of` has them (dispatcher/memory/typed/duplicates.py)."""
    return {
        str(day.day), f"{day.day:02}", str(day.month), f"{day.month:02}", str(day.year), f"{day:%Y%m%d}", f"{day:%d%m%Y}", f"{day:%d%m}",
        f"{day.day}{day.month}", f"{day.day}{day.month}{day.year}", f"month{day.month - 1}", f"day{day.weekday()}",
    }  # fmt: skip


def _pieces(words: list[str]) -> Iterator[str]:
    for start in range(len(words)):
        for count in range(1, MOST_WORDS + 1):
            if start + count <= len(words):
                yield " ".join(words[start : start + count]).strip(".,;:!?()\"'")
