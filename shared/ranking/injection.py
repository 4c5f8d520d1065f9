"""Whether a message is given what was said before, and where that ends: pure functions, evidence in, decision out.

All evidence counts together: words of the message that are rare in the chat and stand in what was said, a day that it names, how near the best turn
is in meaning and how far above the others, whether it asks, and about us. No single floor decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from shared.ranking.question import ASKED, content_words, query_words
from shared.text.dates.past import Span, Times, read_times
from shared.text.function_words import ASKER, ASKING, COURTESY, CUT_OFF, LIGHT, TALKING, TO_ASKER, language_of, plain

#: A word that asks does so at the beginning; further on it joins sentences ("Écris une fonction qui …").
FIRST_WORDS = 3


@dataclass(frozen=True)
class Message:
    """What a message is, before anybody looks anything up. `telling` are the words that can be evidence: no courtesy, no time, no "tell"."""

    language: str
    telling: tuple[str, ...]
    asks: bool
    asks_what_was_said: bool
    personal: bool  # "I", "you", "we"
    times: Times
    now: float
    names: frozenset[str] = frozenset()  # in lower case

    @property
    def past(self) -> list[Span]:
        """The times that it names and that are over."""
        return [(first, end) for first, end in self.times.spans if end <= self.now]

    @property
    def spans(self) -> list[Span]:
        """The times that can be what it asks for: those that are over; of the present day or week only what asks for what was said."""
        return self.times.spans if self.asks_what_was_said else self.past

    @property
    def asks_for_a_time(self) -> bool:
        """Whether it asks for what was said at a time, and for nothing else ("What did we talk about yesterday?")."""
        return bool(self.spans) and not self.telling and (self.asks or self.asks_what_was_said)


def read_message(text: str, now: float, zone: ZoneInfo) -> Message:
    """`now` is POSIX seconds."""
    times = read_times(text, now, zone)
    words = query_words(text)
    language = language_of(words)
    folded = {plain(word) for word in words}
    idle = COURTESY[language] | TALKING[language] | LIGHT[language] | CUT_OFF
    content = content_words(query_words(times.beside), language)
    telling = (word for word in content if (len(word) > 1 or word.isdigit()) and plain(word) not in idle)
    said = not folded.isdisjoint(TALKING[language])
    asking = any(plain(word) in ASKING[language] for word in words[:FIRST_WORDS])
    names = set(_NAME.findall(text)) if language != "de" else set()  # German writes every noun so
    return Message(
        language,
        tuple(dict.fromkeys(telling)),
        "?" in text or asking,
        said,
        not folded.isdisjoint(ASKER[language])
        or (asking and not folded.isdisjoint(TO_ASKER[language]))
        or (said and not folded.isdisjoint(ASKED)),
        times,
        now,
        frozenset(name.lower() for name in names),
    )


#: A word with a capital letter that does not begin a sentence.
_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÞА-ЯЁ]\w+")


@dataclass(frozen=True)
class Evidence:
    """What a lookup found out about a message; shares are 0 to 1.

    `coverage`: share of its telling words, each by its rarity, that stand in one turn or beside it; `found` of them stand anywhere. `cosine` is the
    best (None: not asked), `lead` by how many standard deviations it is above the mean of the chat. `then`: turns said in the times that it names.
    `rarity`: what `coverage` weighs, in words that stand nowhere else. `foreign`: share of the chat's turns in other languages than the message's.
    """

    message: Message
    items: int
    coverage: float = 0.0
    rarity: float = 0.0
    found: int = 0
    cosine: float | None = None
    lead: float = 0.0
    then: int = 0
    named: bool = False  # it holds the name of one who speaks in this chat, or of whom somebody spoke
    unknown_name: bool = False  # it holds a name that nobody said here
    foreign: float = 0.0
    typical: float = 0.0  # score of the turn in the middle


@dataclass(frozen=True)
class Decision:
    """Whether recalled turns are told, and by which evidence, as a sentence without anybody's words.

    `spans`: only what was said then. `blind`: neither words nor similarity tell which.
    """

    inject: bool
    why: str
    spans: tuple[Span, ...] = ()
    blind: bool = False
    plain: str = ""  # why not, for the person who wrote the message


#: What such a person is told.
WEAK = "nothing that was said before fitted your message well enough"
NO_SUBJECT = "your message names nothing that I could look up"
#: Cosine from which on meaning is evidence, and what it counts beyond, by model family: the scales of two models differ. With LANGUAGES, what the
#: family was trained on: a question in another language is near to all that is said in that language, whatever it is about.
NEAR: Mapping[str, tuple[float, float]] = {"all-MiniLM-L6-v2": (0.20, 1.5)}
LANGUAGES: Mapping[str, frozenset[str]] = {"all-MiniLM-L6-v2": frozenset({"en"})}
#: Strength that is needed: of a question about us or somebody who speaks here; of another question; of what asks nothing,
#: said of oneself or not.
OF_US, OF_THE_WORLD, OF_ME, NO_QUESTION = 0.18, 0.36, 0.50, 0.70
#: What one word counts in what asks nothing: "continue", "never mind" are found in any long chat.
ONE_WORD = 0.5
#: Shares of a chat's turns in other languages than the message from which on words cannot be expected to meet: for a question about us, for another.
FOREIGN, ALL_FOREIGN = 0.2, 0.6
#: Where similarity tells nothing, a share of the telling words in one place from which on words alone tell which turns are meant.
SURE = 0.6


def decide(evidence: Evidence, family: str | None, zone: ZoneInfo) -> Decision:
    """`family` is the model that the cosines are of, None for none."""
    message = evidence.message
    if message.asks_for_a_time:
        days = _named(message.spans, zone)
        if not evidence.then:
            return Decision(
                False,
                f"it asks for what was said {days}, and nothing was said then",
                plain=f"nothing was said here {days}",
            )
        return Decision(True, f"it asks for what was said {days}", tuple(message.spans))
    if not message.telling:
        return Decision(
            False, "it holds no word that tells what it is about, and names no time that is over", plain=NO_SUBJECT
        )
    near = _meaning(evidence, family)
    words = evidence.coverage * min(1.0, evidence.rarity)
    if len(message.telling) == 1 and not message.asks:
        words *= ONE_WORD
    strength, told = words + (near or 0.0), _told(evidence, near)
    ours = message.asks and (message.personal or evidence.named)
    if ours and evidence.then and message.personal:
        return Decision(True, f"{told}, and it asks about {_named(message.spans, zone)}")
    blind = near is None and evidence.coverage < SURE
    if ours and near is None:
        why = f"{told}, a question about us, and similarity tells nothing in this language or model"
        return Decision(True, why, blind=blind)
    needed, kind = _needed(message, ours=ours, measured=evidence.cosine is not None and family in NEAR)
    if strength < needed and _across_languages(evidence, ours=ours):
        why = f"{told}, but {100 * evidence.foreign:.0f} % of the turns are in other languages than this question"
        return Decision(True, why, blind=True)
    verb = "is enough" if strength >= needed else "is too little"
    told = f"{told}; a strength of {strength:.2f} {verb} for {kind} ({needed:.2f})"
    return Decision(strength >= needed, told, blind=blind, plain="" if strength >= needed else WEAK)


def _across_languages(evidence: Evidence, *, ours: bool) -> bool:
    """Whether a question may be about what was said in another language; names are the same there, so a name that nobody said speaks against."""
    if ours:
        return evidence.foreign >= FOREIGN
    return evidence.message.asks and evidence.foreign >= ALL_FOREIGN and not evidence.unknown_name


def _needed(message: Message, *, ours: bool, measured: bool) -> tuple[float, str]:
    """What is needed, and of which kind of message; where similarity could not help, words need not say as much."""
    if ours:
        return OF_US, "a question about us"
    if message.asks:
        return OF_THE_WORLD if measured else OF_US, "a question"
    return (OF_ME, "what somebody says of himself") if message.personal else (NO_QUESTION, "what asks nothing")


def may_be_foreign(evidence: Evidence) -> bool:
    """Whether it is worth asking which languages the chat is in: a question of which few words are found."""
    ours = evidence.message.personal or evidence.named
    needed = OF_US if ours else OF_THE_WORLD
    return evidence.message.asks and evidence.coverage * min(1.0, evidence.rarity) < needed


def _meaning(evidence: Evidence, family: str | None) -> float | None:
    """What the best cosine counts; None where nobody measured that."""
    if evidence.cosine is None or family is None or evidence.message.language not in LANGUAGES.get(family, ()):
        return None
    least, slope = NEAR[family]
    return slope * max(0.0, evidence.cosine - least)


def _told(evidence: Evidence, near: float | None) -> str:
    count = len(evidence.message.telling)
    words = f"{evidence.found} of {count} telling word{'s' if count != 1 else ''} found"
    return words if near is None else f"{words}, similarity at best {evidence.cosine:.2f}"


def _named(spans: Sequence[Span], zone: ZoneInfo) -> str:
    """`on 2026-05-12`, `from 2026-05-04 to 2026-05-10`."""
    told = []
    for first, end in spans:
        one, other = (datetime.fromtimestamp(at, zone).strftime("%Y-%m-%d") for at in (first, end - 1))
        told.append(f"on {one}" if one == other else f"from {one} to {other}")
    return " and ".join(told)
