"""What must hold of a change that a model wants, whatever the model says. Pure functions; each refusal is a reason that is counted.

The model reads words of people and files, so it may be told anything there. Code sees to it that a note says only what somebody said in this chat:
every name, number, date and link of a new text stands in the messages that it names or in the notes that it replaces, or is what their words mean
on their day.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from zoneinfo import ZoneInfo

from dispatcher.features.dream.named_days import days_named, forms_of
from dispatcher.memory.relevance import content_roots, text_roots
from dispatcher.memory.store.memories import Memory
from dispatcher.memory.typed.duplicates import details_of
from shared.text.translations import later
from shared.turns.note_changes import Change
from shared.turns.records import Turn

#: Reasons, as they are counted, and shown in the chat's language.
NO_MESSAGE = later("no message of a person says so")
NO_NOTE = later("a note that it names is not there any more")
NO_TEXT = later("it has no text")
NOT_ALIKE = later("the notes are of different kinds or people")
NOT_SAID = later("it has a name, number, date or link that was not said")
BAD_DAY = later("its day was not said")
SAME = later("it changes nothing")
KNOWN = later("it is noted already")
TOO_MANY = later("more than a quarter of the notes would change")
UNREADABLE = "it could not be read"
#: Changes of a chat in one night: this share of its memories, and always so many.
SHARE, ALWAYS = 4, 3
_LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\w+", re.IGNORECASE)
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th|er|e|º|ª|го|е|ого|му)\Z")


@dataclass(frozen=True)
class ChangeEvidence:
    """What a change follows from: the messages that it names, and the valid memories that it replaces."""

    turns: Sequence[Turn]
    memories: Sequence[Memory]
    zone: ZoneInfo

    @property
    def texts(self) -> list[str]:
        said = [f"{turn.name or ''} {turn.remembered}" for turn in self.turns]
        return [*said, *(f"{one.name or ''} {' '.join(one.texts)}" for one in self.memories)]

    @property
    def days(self) -> set[date]:
        """The days that they name."""
        named = [days_named(turn.remembered, turn.timestamp, self.zone) for turn in self.turns]
        return set().union(*named, *(days_named(one.text, one.created, self.zone) for one in self.memories))


def most_changes(memories: int) -> int:
    """How many of so many memories may change in a night."""
    return max(ALWAYS, memories // SHARE)


def why_refused(change: Change, evidence: ChangeEvidence) -> str | None:
    """Why this change is not carried out; None if it may be."""
    if not any(turn.role == "user" for turn in evidence.turns):
        return NO_MESSAGE
    wanted = {
        "add": evidence.memories == (),
        "replace": len(evidence.memories) == 1,
        "end": len(evidence.memories) == 1,
    }
    if not wanted.get(change.do, len(evidence.memories) > 1):
        return NO_NOTE
    if len({(one.type, one.user_id) for one in evidence.memories}) > 1:
        return NOT_ALIKE
    if change.until and day_of(change.until) not in evidence.days:
        return BAD_DAY
    if change.do == "end":
        return None if change.until else BAD_DAY
    text = change.text.strip()
    if not content_roots(text):
        return NO_TEXT
    if any(text == one.text for one in evidence.memories) and change.do == "replace":
        return SAME
    return None if is_said(text, evidence) else NOT_SAID


def is_said(text: str, evidence: ChangeEvidence) -> bool:
    """Whether everything particular in a text was said."""
    texts = evidence.texts
    whole, known = "\n".join(texts).casefold(), [details_of(one) for one in texts]
    words = {word for one in known for word in one.words}
    roots = {root for one in texts for root in text_roots(one)}
    if any(link.casefold().rstrip(".,;)") not in whole for link in _LINK.findall(text)):
        return False
    new = details_of(text)
    for name in new.names - words:
        first = bool(new.words) and new.words[0] == name  # a word that only begins the sentence needs its root
        if not (first and text_roots(name) and text_roots(name) <= roots):
            return False
    if any(not _has_case(word) and word not in whole for word in new.words):
        return False
    numbers = {_bare(number) for one in known for number in one.numbers}
    numbers |= {form for day in evidence.days for form in forms_of(day)}
    return all(_bare(number) in numbers for number in new.numbers)


def _bare(number: str) -> str:
    return _ORDINAL.sub("", number)


def _has_case(word: str) -> bool:
    """Whether its script tells names by capitals, or it has no letter: what has neither must stand in the messages as it is."""
    return word.lower() != word.upper() or not any(map(str.isalpha, word))


def day_of(text: str) -> date | None:
    """`2026-11-14`; None for anything else."""
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
