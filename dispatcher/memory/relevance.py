"""Relevance, as pure functions: of a remembered fact, and of a single hit, to what is asked now."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from shared.ranking.question import QUESTION_WORDS, query_words, spoken
from shared.text.caches import cached
from shared.text.stemming import KEPT_WORDS, stemmed

#: A fact less alike than this is not remembered at all.
MINIMUM_SIMILARITY = 0.4
#: Days in which a fact that nobody asked for loses half of its weight.
HALF_LIFE_DAYS = 30.0
#: What each e-fold of accesses adds.
REINFORCEMENT = 0.1
#: Weight of the least and of the greatest importance (1 and 5); linear between them.
LEAST_WEIGHT, GREATEST_WEIGHT = 0.6, 1.0
_SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Relevance:
    """The four factors of a fact's relevance."""

    similarity: float
    time: float
    reinforcement: float
    importance: float

    @property
    def score(self) -> float:
        """Their product."""
        return self.similarity * self.time * self.reinforcement * self.importance


def relevance(
    distance: float, *, now: float, created: float, accessed: float | None, access_count: int, importance: int
) -> Relevance | None:
    """How much a fact matters for what is asked now; None if it is less alike than MINIMUM_SIMILARITY.

    `distance` is cosine distance, 0 to 2 (rounding errors outside are put back); times are POSIX seconds, `accessed` None for never; an
    `importance` outside 1 to 5 counts as the nearest. similarity = 1 - distance / 2, time = 0.5 ^ (days since it was last accessed, else
    created, / 30), reinforcement = 1 + 0.1 ln(1 + accesses), importance = 0.6 to 1.0. A time ahead of `now` is now: clocks differ.
    """
    similarity = 1 - min(max(distance, 0.0), 2.0) / 2
    if not similarity >= MINIMUM_SIMILARITY:  # also where the distance is no number
        return None
    days = max(0.0, now - (created if accessed is None else accessed)) / _SECONDS_PER_DAY
    rank = (min(max(importance, 1), 5) - 1) / 4
    return Relevance(
        similarity,
        0.5 ** (days / HALF_LIFE_DAYS),
        1 + REINFORCEMENT * math.log1p(max(0, access_count)),
        LEAST_WEIGHT + (GREATEST_WEIGHT - LEAST_WEIGHT) * rank,
    )


#: A single hit under both of these, cosine and share of the best match by words, is there only since nothing better was left. On LoCoMo no
#: question loses its evidence by it, at any budget; with .20 ctx@4000t loses .4.
FAINT: Mapping[str, tuple[float, float]] = {"all-MiniLM-L6-v2": (0.15, 0.10)}
_ENDING = re.compile(r"(?:ing|ed|es|s|e|d)$")


def faint(cosine: float | None, lexical: float | None, family: str | None) -> bool:
    """Whether a hit (its cosine, and its words' share of the best) is too weak to be worth a line; never where that was not measured."""
    limits = FAINT.get(family or "")
    return limits is not None and cosine is not None and cosine < limits[0] and (lexical or 0.0) < limits[1]


def coverage(message: str, text: str) -> float:
    """Share (0 to 1) of a message's words of content that stand in a text, endings aside; 0 for a message without any."""
    return _share(_content(message), text)


def text_roots(text: str) -> set[str]:
    """A text's words, endings aside."""
    return {_root(word) for word in spoken(text).split(" ") if word}


def content_roots(message: str) -> set[str]:
    """A message's words of content, endings aside."""
    return _content(message)


def _content(message: str) -> set[str]:
    """A message's words of content, endings aside."""
    return {_root(word) for word in query_words(message) if word not in QUESTION_WORDS}


def _share(asked: set[str], text: str) -> float:
    return len(asked.intersection(map(_root, spoken(text).split(" ")))) / len(asked) if asked else 0.0


#: A text of so few words that holds a memory's numbers says it, whatever the others are ("It is 4711").
FEW_WORDS = 6
#: Share of a memory's words that a turn must hold to say it again, if it does not hold all of its numbers.
SAID_AGAIN = 0.7


def says_again(memory: str, text: str) -> bool:
    """Whether a text says what a memory says: most of its words, or every number in it ("4711") beside one other word of it.

    With none of its numbers but others instead it says something else.
    """
    asked = _content(memory)
    held = {_root(word) for word in query_words(text)}
    numbers = {word for word in asked if any(character.isdigit() for character in word)}
    if numbers and numbers <= held:
        return len(asked) == len(numbers) or not held.isdisjoint(asked - numbers) or len(held) <= FEW_WORDS
    if numbers and numbers.isdisjoint(held) and any(character.isdigit() for word in held for character in word):
        return False  # the same words with another number are other news, often its correction
    return len(asked) > 1 and len(asked & held) >= SAID_AGAIN * len(asked)


@cached(KEPT_WORDS)
def _root(word: str) -> str:
    word = stemmed(word)  # only what is in Cyrillic
    return _ENDING.sub("", word) if len(word) > 3 else word
