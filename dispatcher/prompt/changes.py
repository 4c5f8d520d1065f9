"""Which recalled lines give a newer value of the same: "the deadline moved to 5 April" of "the deadline is 1 April". Pure functions.

A pair is marked only if all of this holds, since a wrong mark is worse than none: both lines are of one person; the newer one says itself that
something changed ("now", "moved", "increased"); a sentence of each has at least two content words in common, and half of the message's; and in these
sentences a value of the same kind (a date, an amount of money, 7 series) differs. English only. On BEAM's 119 questions 12 pairs of lines were found,
10 of them right; on LoCoMo's and REALTALK's 1,147 none (docs/measurements.md).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.ranking.question import content_words, query_words
from shared.text.caches import cached
from shared.text.dates.calendar_words import ENGLISH, either
from shared.text.words.function_words import COURTESY, CUT_OFF, LIGHT, TALKING, plain
from shared.text.words.stemming import stemmed

if TYPE_CHECKING:
    from shared.turns.chunk import Chunk

#: Content words that both sentences have; share of the message's that are among them.
FEWEST_WORDS, SHARE = 2, 0.5
_CHANGE = re.compile(
    r"\b(?:now|no longer|not any ?more|instead|actually|rescheduled?|postponed|moved|changed|updated?|extended|increased|decreased|reduced|raised"
    r"|lowered|shortened|improved to|switched|corrected?|correction|new (?:deadline|date|budget|time|goal|target))\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+|;\s+|,\s+(?:and|but|so)\s+")
_MONTH = either([*ENGLISH.month_forms, *ENGLISH.month_short])
_DATE = re.compile(
    rf"\b({_MONTH})\.?\s+(\d{{1,2}})(?:st|nd|rd|th)?\b|\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"([$€£]\s?)?(\d+(?:,\d{3})*(?:[.:]\d+)?)\s*(%|percent\b|[ap]\.?m\b|(?:hour|minute|day|week|month|year)s?\b)?",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d{1,2}:\d\d")
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(?:19|20)\d\d")
_WORDS_AFTER = re.compile(r"\s*([A-Za-z]+)(?:\s+([A-Za-z]+))?(?:\s+([A-Za-z]+))?")
_IDLE = COURTESY["en"] | TALKING["en"] | LIGHT["en"] | CUT_OFF
#: Words that say nothing of a topic where somebody asks an assistant.
_ASKING = frozenset("can consider ensure ha kinda plan sure trying understand using worried".split())


@dataclass(frozen=True)
class Change:
    """Places of two lines in a list; the newer one has another value."""

    older: int
    newer: int


def changes(message: str, said: Sequence[tuple[Chunk, str]]) -> list[Change]:
    """The changes among lines: what each shows, with its chunk. Every two lines at most once."""
    asked = content(message)
    needed = max(FEWEST_WORDS, math.ceil(SHARE * len(asked)))
    if len(asked) < FEWEST_WORDS:
        return []
    found = []
    for newer, (chunk, text) in enumerate(said):
        if not _CHANGE.search(text):
            continue
        changed = [part for part in _with_values(text) if _CHANGE.search(part) and len(asked & content(part)) >= needed]
        for older, (other, before) in enumerate(said):
            if changed and other.person == chunk.person and other.started_at < chunk.started_at:
                parts = list(_with_values(before))
                if any(_replaces(part, new, asked, needed) for new in changed for part in parts):
                    found.append(Change(older, newer))
    return found


def _replaces(old: str, new: str, asked: frozenset[str], needed: int) -> bool:
    common = content(old) & content(new)
    if len(common) < FEWEST_WORDS or len(common & asked) < needed:
        return False
    before, after = values(old), values(new)
    return any(
        _alike(one, other) and before[one].isdisjoint(after[other]) for one in before for other in after
    )  # fmt: skip


def _alike(one: str, other: str) -> bool:
    """Whether two kinds of value are the same; counted things if they have a content word in common, so a bare number is like no other."""
    if one.startswith("count:") and other.startswith("count:"):
        return bool(content(one.removeprefix("count:")) & content(other.removeprefix("count:")))
    return one == other


def _with_values(text: str) -> Iterator[str]:
    """The sentences that have a digit."""
    return (part for part in _SENTENCE_END.split(text) if _DIGIT.search(part))


@cached(2048)
def content(text: str) -> frozenset[str]:
    """Stems of the words that tell the topic, without numbers."""
    words = content_words(query_words(text), "en")
    stems = (
        stemmed(plain(word)) for word in words if len(word) > 1 and not word[0].isdigit() and plain(word) not in _IDLE
    )
    return frozenset(stems) - _ASKING


@cached(2048)
def values(sentence: str) -> Mapping[str, set[str]]:
    """The values in a sentence, by kind: `date`, `money`, `percent`, `clock`, a unit of time, or `count:` and the words after the number."""
    found: dict[str, set[str]] = defaultdict(set)
    for month, day, day_first, month_last in _DATE.findall(sentence):
        found["date"].add(f"{(month or month_last)[:3].lower()} {int(day or day_first)}")
    rest = _DATE.sub(" ", sentence)
    for number in _NUMBER.finditer(rest):
        currency, amount, unit = number.groups(default="")
        if _YEAR.fullmatch(amount) and not currency and not unit:
            continue
        kind = _kind(currency, amount, unit.lower(), rest[number.end() :])
        plain_amount, letter = amount.replace(",", ""), unit[:1].lower()
        found[kind] |= _times(plain_amount, letter) if kind == "clock" else {plain_amount + letter}
    return found


def _times(time: str, half: str) -> set[str]:
    """The times of day, by a 12-hour clock, that a time may be: two where nothing says in which half of the day it is."""
    hour, _, minute = time.replace(".", ":").partition(":")
    twelve = str(int(hour) % 12 or 12) + (f":{minute}" if minute.strip("0") else "")
    return {twelve + one for one in half or ("p" if int(hour) > 12 else "ap")}


def _kind(currency: str, amount: str, unit: str, after: str) -> str:
    if currency:
        return "money"
    if unit in ("%", "percent"):
        return "percent"
    if unit[:1] in ("a", "p") if unit else _TIME.fullmatch(amount):
        return "clock"
    if unit:
        return unit.removesuffix("s")
    words = _WORDS_AFTER.match(after)
    return "count:" + " ".join(filter(None, words.groups() if words else ()))
