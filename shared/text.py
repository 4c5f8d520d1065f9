"""Small rules for text that a person or the model reads."""

from __future__ import annotations

import math
import re
from datetime import datetime
from zoneinfo import ZoneInfo

#: Characters of one token, on average, in English with this kind of model. An estimate, used for budgets only.
CHARACTERS_PER_TOKEN = 4

_MONTHS = "January February March April May June July August September October November December".split()

#: It begins with the set: so a text without any is passed over four times as fast.
_LINE_BREAK = re.compile(r"[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029](?:(?<=\r)\n)?")
#: What a model or the CLI around it may take for the border of a prompt's parts: our own fence, tags of roles and tools, chat marks.
_MARKUP = re.compile(
    r"<(?=\s*/?\s*(?:record|system|system-reminder|human|user|assistant|function_calls|invoke|tool_result)\b|\|)",
    re.IGNORECASE,
)
#: What would begin another speaker's turn, or a part of the prompt, if it stood at the start of a line.
_LINE_START = re.compile(
    r"^(?=[^\S\n]*(?:(?:human|user|assistant|system)[^\S\n]*:|\#|```|\[/?INST\]))", re.IGNORECASE | re.MULTILINE
)


def tokens(text: str) -> int:
    """Estimated tokens of a text: characters / 4, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def one_line(text: str) -> str:
    """All white space folded to single blanks."""
    return " ".join(text.split())


def harmless(text: str) -> str:
    """The text with what could pass for a border of the prompt made visible instead: `<` of a tag as `‹`, `› ` ahead of a role or heading.

    Line breaks of any kind become line feeds first, so that what begins a line for a reader begins one here. Applied twice it is the same.
    """
    lines = _LINE_BREAK.sub("\n", text)
    return _LINE_START.sub("› ", _MARKUP.sub("‹", lines) if "<" in lines else lines)


def shorten(text: str, characters: int) -> str:
    """At most `characters` of a text, cut at a word where there is one, with an ellipsis."""
    if len(text) <= characters:
        return text
    cut = text[: max(0, characters - 1)]
    head, _, _ = cut.rpartition(" ")
    return (head if len(head) > characters // 2 else cut).rstrip() + "…"


def day_text(timestamp: float, zone: ZoneInfo) -> str:
    """`8 May 2023`, in the zone; the month in English, whatever the host's language is."""
    moment = datetime.fromtimestamp(timestamp, zone)
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def date_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20`, in the zone."""
    return datetime.fromtimestamp(timestamp, zone).strftime("%Y-%m-%d")


def time_text(timestamp: float, zone: ZoneInfo) -> str:
    """`2026-11-20 14:05`, in the zone."""
    return datetime.fromtimestamp(timestamp, zone).strftime("%Y-%m-%d %H:%M")


def size_text(count: int) -> str:
    """Bytes for people: `79.3 MiB`."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
