"""Extractive summary of one chat, as a pure function: the sentences that say most, recent ones first, word for word.

A sentence's weight is how much it says (the mean, over its content words, of how often the chat uses the word, on a log scale: SumBasic,
Nenkova and Vanderwende 2005, with a log against single repeated words), raised by what people look up (numbers, names, links), times
0.5^(age / 30 days), where age is counted from the chat's newest turn: no clock enters, so a rebuild gives the same text. A sentence that
repeats a chosen one is left out. The whole archive is read each night; nothing is chained from yesterday's summary.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from shared.chunking import sentences
from shared.lexical import Chunk
from shared.ranking import QUESTION_WORDS
from shared.speakers import label, namesakes
from shared.text import one_line, shorten

#: Raise it when the same chunks would give another summary.
SUMMARY_VERSION = 3
#: Bound of a summary's sentences, in characters (600 tokens, the default budget's share of a summary).
SUMMARY_CHARACTERS = 2200
HALF_LIFE_DAYS = 30.0
#: However old, a sentence keeps this share: what was said once and for all must be able to stay.
OLDEST_WEIGHT = 0.05
SHORTEST_SENTENCE, LONGEST_SENTENCE = 20, 240
#: Share of common words above which a sentence repeats another.
REPEATED_SHARE = 0.6
TOPICS = 8
LEAST_MENTIONS = 3
SHORTEST_TOPIC = 4

_WORD = re.compile(r"[^\W_]{3,}")
_LOOKED_UP = re.compile(r"\d|https?://|(?<=[a-z,;] )[A-Z][a-z]+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a chat with the words it is weighed by."""

    order: int
    speaker: str  # as it is shown (shared/speakers.py)
    timestamp: float
    text: str
    words: frozenset[str]


def summarise(chunks: list[Chunk]) -> tuple[list[Sentence], list[str]]:
    """(chosen sentences in the order of time, words often used) of one chat's chunks."""
    candidates = _sentences(chunks)
    counts: Counter[str] = Counter(word for sentence in candidates for word in sentence.words)
    newest = max((chunk.ended_at for chunk in chunks), default=0.0)
    ranked = sorted(candidates, key=lambda s: (-_weight(s, counts, newest), s.order))
    by_use = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    topics = [w for w, count in by_use if count >= LEAST_MENTIONS and len(w) >= SHORTEST_TOPIC and not w.isdigit()]
    return sorted(_choose(ranked), key=lambda s: s.order), topics[:TOPICS]


def _sentences(chunks: list[Chunk]) -> list[Sentence]:
    found: list[Sentence] = []
    marks = namesakes({chunk.person for chunk in chunks})
    for chunk in chunks:
        for line in chunk.text.split("\n"):
            for part in sentences(line):
                text = one_line(part)
                words = frozenset(word.casefold() for word in _WORD.findall(text)) - QUESTION_WORDS
                if len(text) >= SHORTEST_SENTENCE and len(words) > 1:
                    who = label(chunk.role, chunk.speaker, marks.get(chunk.person, ""))
                    found.append(Sentence(len(found), who, chunk.started_at, shorten(text, LONGEST_SENTENCE), words))
    return found


def _weight(sentence: Sentence, counts: Counter[str], newest: float) -> float:
    saying = sum(math.log1p(counts[word]) for word in sentence.words) / len(sentence.words)
    looked_up = 1.0 + 0.25 * min(3, len(_LOOKED_UP.findall(sentence.text)))
    asking = 0.5 if sentence.text.endswith("?") else 1.0
    age_days = max(0.0, newest - sentence.timestamp) / 86_400
    return saying * looked_up * asking * max(OLDEST_WEIGHT, math.pow(0.5, age_days / HALF_LIFE_DAYS))


def _choose(ranked: list[Sentence]) -> list[Sentence]:
    chosen: list[Sentence] = []
    room = SUMMARY_CHARACTERS
    for sentence in ranked:
        cost = len(sentence.text) + len(sentence.speaker) + 5
        if cost <= room and not any(_repeats(sentence, other) for other in chosen):
            chosen.append(sentence)
            room -= cost
        if room < SHORTEST_SENTENCE:
            break
    return chosen


def _repeats(sentence: Sentence, other: Sentence) -> bool:
    common = len(sentence.words & other.words)
    return common / min(len(sentence.words), len(other.words)) > REPEATED_SHARE
