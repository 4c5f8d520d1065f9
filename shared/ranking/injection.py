"""Whether earlier turns are injected for a message: pure functions, evidence in, decision out.

All evidence counts together: words of the message that are rare in the chat and occur in its turns, a day that the message names, how similar the
best turn is and how far above the others, whether the message is a question, and whether it is about us. No single threshold decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from shared.embedding.known_models import is_measured, likeness, speaks
from shared.ranking.question import content_words, query_words
from shared.text.dates.named_times import Span, Times, read_times
from shared.text.translations import later, tr
from shared.text.words.function_words import (
    ASKER,
    ASKING,
    COURTESY,
    CUT_OFF,
    LIGHT,
    SECOND_PERSON,
    TALKING,
    TO_ASKER,
    language_of,
    plain,
)

#: A question word counts only at the beginning; further on it may join clauses ("Écris une fonction qui …").
FIRST_WORDS = 3


@dataclass(frozen=True)
class Message:
    """A message before any lookup. `telling` are the words that can be evidence: not courtesy, not times, not "tell"."""

    language: str
    telling: tuple[str, ...]
    asks: bool
    asks_what_was_said: bool
    asks_ahead: bool  # what is planned for days to come
    personal: bool  # "I", "you", "we"
    times: Times
    now: float
    names: frozenset[str] = frozenset()  # in lower case

    @property
    def past(self) -> list[Span]:
        """The past times that it names."""
        return [(first, end) for first, end in self.times.spans if end <= self.now]

    @property
    def spans(self) -> list[Span]:
        """The times that it can ask for: past ones; the current day or week only if it asks what was said."""
        return self.times.spans if self.asks_what_was_said else self.past

    @property
    def asks_only_ahead(self) -> bool:
        """Whether it asks for what is to come, and cannot look back as well ("What did I buy today?")."""
        return self.asks_ahead and not (self.telling and self.times.spans)

    @property
    def asks_for_a_time(self) -> bool:
        """Whether it only asks for the conversation at a time ("What did we talk about yesterday?")."""
        return bool(self.spans) and not self.telling and (self.asks or self.asks_what_was_said)


#: Within this long of its beginning, "this week" in a question also means the week before: nobody asks on a Monday how far he ran since midnight.
WEEK_BEGINS, WEEK = 2 * 86_400.0, 7 * 86_400.0


def _loosely(spans: Sequence[Span], now: float) -> list[Span]:
    """The same times, as a question means them. A week with a change of the clocks is an hour longer or shorter."""
    return [
        (first - WEEK, end) if abs(end - first - WEEK) <= 3600 and 0 <= now - first < WEEK_BEGINS else (first, end)
        for first, end in spans
    ]


def read_message(text: str, now: float, zone: ZoneInfo) -> Message:
    """`now` is POSIX seconds."""
    times = read_times(text, now, zone)
    times = replace(times, spans=_loosely(times.spans, now))
    words = query_words(text)
    language = language_of(words)
    folded = {plain(word) for word in words}
    idle = COURTESY[language] | TALKING[language] | LIGHT[language] | CUT_OFF
    content = content_words(query_words(times.beside), language)
    telling = (word for word in content if (len(word) > 1 or word.isdigit()) and plain(word) not in idle)
    said = not folded.isdisjoint(TALKING[language])
    asking = any(plain(word) in ASKING[language] for word in words[:FIRST_WORDS])
    beside = {plain(word) for word in query_words(times.beside)}
    greets = not beside.isdisjoint(COURTESY[language])  # "Good morning, how are you today?"
    ahead = beside.isdisjoint(TALKING[language]) and any(first > now or not greets for first, _ in times.ahead)
    names = set(_NAME.findall(text)) if language != "de" else set()  # German capitalises every noun
    asks = "?" in text or "？" in text or "؟" in text or asking
    return Message(
        language,
        tuple(dict.fromkeys(telling)),
        asks,
        said,
        asks and ahead,
        not folded.isdisjoint(ASKER[language])
        or (asking and not folded.isdisjoint(TO_ASKER[language]))
        or (said and not folded.isdisjoint(SECOND_PERSON["en"] | SECOND_PERSON["ru"])),
        times,
        now,
        frozenset(name.lower() for name in names),
    )


#: A capitalised word that does not begin a sentence.
_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÞА-ЯЁ]\w+")


@dataclass(frozen=True)
class Evidence:
    """What a lookup found for a message; shares are 0 to 1.

    `coverage`: share of its telling words, weighted by rarity, that occur in one turn or next to it; `found` of them occur anywhere. `cosine` is the
    best (None: not compared). `then`: number of turns in the times that it names.
    `dated`: number of turns that name a day for which it asks.
    `rarity`: weight of `coverage`, in words that occur nowhere else. `foreign`: share of the chat's turns in other languages than the message's.
    """

    message: Message
    items: int
    coverage: float = 0.0
    rarity: float = 0.0
    found: int = 0
    cosine: float | None = None
    then: int = 0
    dated: int = 0
    named: bool = False  # it contains the name of a speaker in this chat, or a name that occurs in its turns
    unknown_name: bool = False  # it contains a name that does not occur in this chat
    foreign: float = 0.0


@dataclass(frozen=True)
class Decision:
    """Whether recalled turns are injected, and the evidence for it, as a sentence that quotes no message.

    `spans`: inject only turns of these times.
    """

    inject: bool
    why: str
    spans: tuple[Span, ...] = ()
    plain: str = ""  # why nothing is injected, for the person who wrote the message


#: Explanations for that person.
WEAK = later("no earlier message matched yours well enough")
NO_SUBJECT = later("your message has no word that I could search for")
#: The likeness (shared/embedding/known_models.py) above which similarity counts, and its weight.
NEAR, NEAR_WEIGHT = 0.20, 1.5
#: Required strength: of a question about us or a speaker of the chat; of another question; of a statement about oneself; of another statement.
OF_US, OF_THE_WORLD, OF_ME, NO_QUESTION = 0.18, 0.30, 0.50, 0.70
#: Weight of a statement with a single word: "continue" is found in any long chat, and "thanks, that helped" is like all other thanks.
ONE_WORD = 0.5
#: Shares of a chat's turns in other languages above which words cannot be expected to match: for a question about us, for another question.
FOREIGN, ALL_FOREIGN = 0.2, 0.6


def decide(evidence: Evidence, family: str | None, zone: ZoneInfo) -> Decision:
    """`family` is the family of the model behind the cosines; None if there are no cosines."""
    message = evidence.message
    if evidence.dated:
        return Decision(True, f"it asks for days that are named in {evidence.dated} turns")
    if message.asks_for_a_time:
        days = _named(message.spans, zone)
        if not evidence.then:
            return Decision(
                False,
                f"it asks about the conversation {days}, and there are no messages from then",
                plain=_nothing_then(message.spans, zone),
            )
        return Decision(True, f"it asks about the conversation {days}", tuple(message.spans))
    if not message.telling:
        return Decision(False, "it has no word that shows its topic, and names no past time", plain=NO_SUBJECT)
    near = _meaning(evidence, family)
    strength, found = evidence.coverage * min(1.0, evidence.rarity) + (near or 0.0), _measured(evidence, near)
    if len(message.telling) == 1 and not message.asks:
        strength *= ONE_WORD
    ours = message.asks and (message.personal or evidence.named)
    if ours and evidence.then and message.personal:
        return Decision(True, f"{found}, and it asks about {_named(message.spans, zone)}")
    if ours and near is None:
        why = f"{found}, a question about us, and similarity is not usable with this language or model"
        return Decision(True, why)
    needed, kind = _needed(message, ours=ours, measured=evidence.cosine is not None and is_measured(family))
    if strength < needed and _across_languages(evidence, ours=ours):
        why = f"{found}, but {100 * evidence.foreign:.0f} % of the turns are in languages other than this question"
        return Decision(True, why)
    verb = "is enough" if strength >= needed else "is too low"
    why = f"{found}; a strength of {strength:.2f} {verb} for {kind} ({needed:.2f})"
    return Decision(strength >= needed, why, plain="" if strength >= needed else WEAK)


def _across_languages(evidence: Evidence, *, ours: bool) -> bool:
    """Whether a question may be about turns in another language; names stay the same across languages, so an unknown name is evidence against it."""
    if ours:
        return evidence.foreign >= FOREIGN
    return evidence.message.asks and evidence.foreign >= ALL_FOREIGN and not evidence.unknown_name


def _needed(message: Message, *, ours: bool, measured: bool) -> tuple[float, str]:
    """The required strength, and the kind of message; without similarity, less is required of the words."""
    if ours:
        return OF_US, "a question about us"
    if message.asks:
        return OF_THE_WORLD if measured else OF_US, "a question"
    return (OF_ME, "a statement about oneself") if message.personal else (NO_QUESTION, "a statement")


def may_be_foreign(evidence: Evidence) -> bool:
    """Whether the languages of the chat need to be checked: a question of which few words are found."""
    ours = evidence.message.personal or evidence.named
    needed = OF_US if ours else OF_THE_WORLD
    return evidence.message.asks and evidence.coverage * min(1.0, evidence.rarity) < needed


def _meaning(evidence: Evidence, family: str | None) -> float | None:
    """The weight of the best cosine; None if it was not measured."""
    if evidence.cosine is None or not speaks(family, evidence.message.language):
        return None
    return NEAR_WEIGHT * max(0.0, likeness(evidence.cosine, family) - NEAR)


def _measured(evidence: Evidence, near: float | None) -> str:
    count = len(evidence.message.telling)
    words = f"{evidence.found} of {count} relevant word{'s' if count != 1 else ''} found"
    return words if near is None else f"{words}, similarity at best {evidence.cosine:.2f}"


def _nothing_then(spans: Sequence[Span], zone: ZoneInfo) -> str:
    """For the person, in the language that is spoken now: what is found has a date in it."""
    if len(spans) != 1:
        return tr("there are no messages here from those times")
    first, last = _days(spans[0], zone)
    if first == last:
        return tr("there are no messages here on {day}").format(day=first)
    return tr("there are no messages here from {first} to {last}").format(first=first, last=last)


def _days(span: Span, zone: ZoneInfo) -> tuple[str, str]:
    first, last = (datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d") for at in (span[0], span[1] - 1))
    return first, last


def _named(spans: Sequence[Span], zone: ZoneInfo) -> str:
    """`on 2026-05-12`, `from 2026-05-04 to 2026-05-10`."""
    days = []
    for span in spans:
        one, other = _days(span, zone)
        days.append(f"on {one}" if one == other else f"from {one} to {other}")
    return " and ".join(days)
