"""Relevance of a memory to the current message. Pure functions."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from shared.ranking.question import query_words, spoken
from shared.text.caches import cached
from shared.text.words.function_words import NEVER_SEARCHED
from shared.text.words.stemming import KEPT_WORDS, stemmed

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory

#: Days in which an unused memory loses half of its weight.
HALF_LIFE_DAYS = 30.0
#: What each e-fold increase of accesses adds.
REINFORCEMENT = 0.1
#: Weight of the least and of the greatest importance (1 and 5); linear between them.
LEAST_WEIGHT, GREATEST_WEIGHT = 0.6, 1.0
_SECONDS_PER_DAY = 86_400.0


def relevance(memory: Memory, near: float, now: float) -> float:
    """How relevant a memory is to the current message, to which it is this near (1: it says the same; a rounding error above counts as 1).

    similarity = 1 - (1 - near) / 2, time = 0.5 ^ (days since it was last accessed, else created, / 30), reinforcement = 1 + 0.1 ln(1 + accesses),
    importance = 0.6 to 1.0; their product. A time after `now` (POSIX seconds) counts as `now`, because clocks differ.
    """
    similarity = 1 - max(1 - near, 0.0) / 2
    days = max(0.0, now - (memory.created if memory.last_accessed is None else memory.last_accessed)) / _SECONDS_PER_DAY
    rank = (memory.importance - 1) / 4
    fresh, reinforced = math.pow(0.5, days / HALF_LIFE_DAYS), 1 + REINFORCEMENT * math.log1p(memory.access_count)
    return similarity * fresh * reinforced * (LEAST_WEIGHT + (GREATEST_WEIGHT - LEAST_WEIGHT) * rank)


_ENDING = re.compile(r"(?:ing|ed|es|s|e|d)$")


def coverage(message: str, text: str) -> float:
    """Share (0 to 1) of a message's content words that are in a text, ignoring endings; 0 for a message without any."""
    asked = content_roots(message)
    return len(asked & text_roots(text)) / len(asked) if asked else 0.0


def text_roots(text: str) -> set[str]:
    """A text's words, without endings."""
    return {_root(word) for word in spoken(text).split(" ") if word}


def content_roots(message: str) -> set[str]:
    """A message's content words, without endings."""
    return {_root(word) for word in query_words(message) if word not in NEVER_SEARCHED}


#: A text of at most so many words that contains a memory's numbers repeats it, whatever its other words are ("It is 4711").
FEW_WORDS = 6
#: Share of a memory's words that a turn must contain to repeat it, if it does not contain all of its numbers.
REPEATED_SHARE = 0.7


def says_again(memory: str, text: str) -> bool:
    """Whether a text repeats a memory: it has most of its words, or all of its numbers ("4711") and one other word of it.

    A text with other numbers and none of the memory's says something else.
    """
    asked = content_roots(memory)
    words = {_root(word) for word in query_words(text)}
    numbers = {word for word in asked if any(character.isdigit() for character in word)}
    if numbers and numbers <= words:
        return len(asked) == len(numbers) or not words.isdisjoint(asked - numbers) or len(words) <= FEW_WORDS
    if numbers and numbers.isdisjoint(words) and any(character.isdigit() for word in words for character in word):
        return False  # the same words with another number are a different statement, often a correction
    return len(asked) > 1 and len(asked & words) >= REPEATED_SHARE * len(asked)


@cached(KEPT_WORDS)
def _root(word: str) -> str:
    word = stemmed(word)  # stems only Cyrillic words
    return _ENDING.sub("", word) if len(word) > 3 else word
