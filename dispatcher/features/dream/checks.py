"""What must hold of a change that a model wants, whatever the model says. Pure functions; each refusal is a reason that is counted.

The model reads words of people and files, so it may be told anything there. Code sees to it that a note says only what somebody said in this chat:
every name, number, date and link of a new text stands in the messages that it names or in the notes that it replaces, or is what their words mean
on their day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.coming_times import read_coming
from dispatcher.memory.relevance import content_roots, text_roots
from dispatcher.memory.typed.duplicates import details_of
from shared.text.caches import cached
from shared.text.dates.calendar_words import WORDS
from shared.text.dates.named_times import read_times
from shared.text.translations import later
from shared.turns.message_origin import is_group
from shared.turns.note_changes import Change
from shared.turns.records import Turn

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory

#: Reasons, as they are counted, and shown in the chat's language.
NO_MESSAGE = later("no message of a person says so")
NO_NOTE = later("a note that it names is not there any more")
NO_TEXT = later("it has no text")
NOT_ALIKE = later("the notes are of different kinds or people")
NOT_SAID = later("it says something that nobody said")
BAD_DAY = later("its day was not said")
SAME = later("it changes nothing")
KNOWN = later("it is noted already")
NOT_THEIRS = later("somebody else has said that, and only they or an owner may change it")
LOSES = later("it loses something of the notes")
TOO_MANY = later("more than a quarter of the notes would change")
UNREADABLE = "it could not be read"
#: Changes of a chat in one night: this share of its memories, and always so many.
SHARE, ALWAYS = 4, 3
_LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\w+", re.IGNORECASE)
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th|er|e|º|ª|го|е|ого|му)\Z")


#: Notes that one change may merge, and the share of a new text's words that must have been said.
MOST_MERGED, SAID_SHARE = 4, 0.5


@dataclass(frozen=True)
class ChangeEvidence:
    """What a change follows from: the messages that it names, none of them forgotten, and the valid memories that it replaces. `owners`: user ids.

    What Claude answered may be named, but it does not vouch: it may have been read anywhere."""

    turns: Sequence[Turn]
    memories: Sequence[Memory]
    zone: ZoneInfo
    owners: frozenset[str] = frozenset()

    @property
    def said(self) -> list[Turn]:
        """What people said."""
        return [turn for turn in self.turns if turn.role == "user"]

    @property
    def texts(self) -> list[str]:
        said = [f"{turn.name or ''} {turn.remembered}" for turn in self.said]
        return [*said, *(f"{one.name or ''} {' '.join(one.texts)}" for one in self.memories)]

    @cached_property
    def days(self) -> set[date]:
        """The days that they name."""
        named = [days_named(turn.remembered, turn.timestamp, self.zone) for turn in self.said]
        return set().union(*named, *(days_named(one.text, one.created, self.zone) for one in self.memories))

    @property
    def is_theirs(self) -> bool:
        """Whether those who said it may change what was noted: in a group only who told it, or an owner. What is added is one person's."""
        first = self.said[0]
        if not is_group(first.chat_id, first.origin.chat_type):
            return True
        people = {turn.user_id for turn in self.said}
        if not self.memories:
            return len(people) == 1
        whose = self.memories[0].user_id
        return any(one is not None and (one == whose or one in self.owners) for one in people)


def weight_of(change: Change) -> int:
    """How many memories it changes."""
    return max(1, len(set(change.notes)))


def most_changes(memories: int) -> int:
    """How many of so many memories may change in a night."""
    return max(ALWAYS, memories // SHARE)


def why_refused(change: Change, evidence: ChangeEvidence, memories: int, changed: int) -> str | None:
    """Why this change is not carried out, in a night that knew so many memories and has changed so many; None if it may be."""
    too_many = changed + weight_of(change) > most_changes(memories)
    return TOO_MANY if too_many else _what_is_wrong(change, evidence)


def _what_is_wrong(change: Change, evidence: ChangeEvidence) -> str | None:
    if not evidence.said:
        return NO_MESSAGE
    counts = {"add": (0, 0), "replace": (1, 1), "end": (1, 1), "merge": (2, MOST_MERGED)}
    least, most = counts[change.do]
    if not least <= len(evidence.memories) <= most or len(evidence.memories) < len(set(change.notes)):
        return NO_NOTE
    if len({(one.type, one.user_id) for one in evidence.memories}) > 1:
        return NOT_ALIKE
    if not evidence.is_theirs:
        return NOT_THEIRS
    until = day_of(change.until)
    if (change.until or change.do == "end") and not _may_end(until, evidence):
        return BAD_DAY
    if change.do == "end":
        return None if _shares_words(evidence.memories[0].text, evidence) else NO_MESSAGE
    text = change.text.strip()
    if not content_roots(text):
        return NO_TEXT
    if any(text == one.text for one in evidence.memories) and change.do == "replace":
        return SAME
    if change.do == "merge" and not _keeps(text, [one.text for one in evidence.memories]):
        return LOSES
    return None if _shares_words(text, evidence) and is_said(text, evidence) else NOT_SAID


def _may_end(until: date | None, evidence: ChangeEvidence) -> bool:
    """Whether somebody named that day, and it was not over then."""
    said_on = min(datetime.fromtimestamp(turn.timestamp, evidence.zone).date() for turn in evidence.said)
    return until is not None and until >= said_on and until in evidence.days


def _shares_words(text: str, evidence: ChangeEvidence) -> bool:
    """Whether the messages are about it at all."""
    return any(content_roots(text) & text_roots(turn.remembered) for turn in evidence.said) or not _is_cased(text)


def _keeps(text: str, old: Sequence[str]) -> bool:
    """Whether a text has every name, number and link of old ones, and all words of one of them."""
    new, before = details_of(text), [details_of(one) for one in old]
    links = all(link in text for one in old for link in _LINK.findall(one))
    names = all(one.names <= set(new.words) and set(one.numbers) <= set(new.numbers) for one in before)
    return links and names and any(content_roots(one) <= text_roots(text) for one in old)


def is_said(text: str, evidence: ChangeEvidence) -> bool:
    """Whether everything particular in a text was said, and half of its words."""
    texts = evidence.texts
    whole, known = "\n".join(texts).casefold(), [details_of(one) for one in texts]
    words = {word for one in known for word in one.words}
    roots = {root for one in texts for root in text_roots(one)}
    if any(link.casefold().rstrip(".,;)") not in whole for link in _LINK.findall(text)):
        return False
    new = details_of(text)
    content = content_roots(" ".join(word for word in new.words if not details_of(word).numbers))
    if len(content & roots) < SAID_SHARE * len(content):
        return False
    for name in new.names - words:
        if details_of(name).numbers:  # a month or a weekday: counted below
            continue
        first = bool(new.words) and new.words[0] == name  # a word that only begins the sentence needs its root
        if not (first and text_roots(name) and text_roots(name) <= roots):
            return False
    if any(not _has_case(word) and word not in whole for word in new.words):
        return False
    left = {_bare(number) for number in new.numbers} - {_bare(number) for one in known for number in one.numbers}
    return not left or left <= {form for day in evidence.days for form in forms_of(day)}


def _bare(number: str) -> str:
    return _ORDINAL.sub("", number)


def _has_case(word: str) -> bool:
    """Whether its script tells names by capitals, or it has no letter: what has neither must stand in the messages as it is."""
    return _is_cased(word) or not any(map(str.isalpha, word))


def _is_cased(text: str) -> bool:
    return text.lower() != text.upper()


def day_of(text: str) -> date | None:
    """`2026-11-14`; None for anything else."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None


# The days that a message names, counted from the day on which it was said.


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
