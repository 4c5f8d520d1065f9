"""Small rules for text that a person or the model reads."""

from __future__ import annotations

import math
import re
from datetime import datetime
from zoneinfo import ZoneInfo

#: Characters of one token, on average, in English with this kind of model. An estimate, used for budgets only.
CHARACTERS_PER_TOKEN = 4

_BLANK = re.compile(r"\s+")


def tokens(text: str) -> int:
    """Estimated tokens of a text: characters / 4, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def one_line(text: str) -> str:
    """All white space folded to single blanks."""
    return _BLANK.sub(" ", text).strip()


def shorten(text: str, characters: int) -> str:
    """At most `characters` of a text, cut at a word where there is one, with an ellipsis."""
    if len(text) <= characters:
        return text
    cut = text[: max(0, characters - 1)]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > characters // 2 else cut).rstrip() + "…"


def date_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20`, in the zone."""
    return datetime.fromtimestamp(timestamp, zone).strftime("%Y-%m-%d")


def time_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20 14:05`, in the zone."""
    return datetime.fromtimestamp(timestamp, zone).strftime("%Y-%m-%d %H:%M")
