"""Extractive summary of one chat, as a pure function: who is who, what is settled, what is open, and what else says most, word for word.

A sentence's weight is how much it says (the mean, over its content words, of how often the chat uses the word, on a log scale: SumBasic,
Nenkova and Vanderwende 2005, with a log against single repeated words), raised by what people look up (numbers, names, links) and by words
that tell who somebody is, what was done or decided, and what is planned, times 0.5^(age / 30 days), where age is counted from the chat's
newest turn: no clock enters, so a rebuild gives the same text. A sentence that repeats a chosen one is left out. A short line of a turn is
taken whole: its sentences explain each other. The whole archive is read each night; nothing is chained from yesterday's summary.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from shared.ranking.question import QUESTION_WORDS
from shared.ranking.summary_words import AHEAD, CHATTER, DONE, OWN, WHEN
from shared.text.format import one_line, shorten
from shared.turns.chunk import Chunk
from shared.turns.chunking import sentences
from shared.turns.speakers import namesakes

#: Raise it when the same chunks would give another summary.
SUMMARY_VERSION = 5
#: Bound of a summary's lines, in characters: with its head and headings it fits where nothing is recalled, at the default budget.
SUMMARY_CHARACTERS = 2200
#: Days in which a sentence loses half of its weight, by kind: who somebody is lasts, what was planned is soon over.
HALF_LIFE_DAYS = {"who": 720.0, "settled": 180.0, "open": 30.0, "said": 30.0}
#: An assistant that talks to everybody says less about the chat than those who do.
ASSISTANT_WEIGHT = 0.5
#: However old, a sentence keeps this share: what was said once and for all must be able to stay.
OLDEST_WEIGHT = 0.05
SHORTEST_SENTENCE, LONGEST_SENTENCE = 20, 300
#: Share of common words above which a sentence repeats another.
REPEATED_SHARE = 0.6
TOPICS = 8
LEAST_MENTIONS = 3
SHORTEST_TOPIC = 4
#: The parts of a summary in their order, and the share of the room that each may fill ahead of what weighs more.
KINDS = {"who": 0.3, "settled": 0.3, "open": 0.15, "said": 0.0}
#: What raises a weight, by how much: whose somebody is, done or decided, when.
TELLING = {"own": 2.0, "done": 0.75, "when": 1.0}
#: Characters of a line beside its words and its speaker: `- 2026-11-20 `, `: ` and the line break.
AROUND = 16

#: Code tells nothing of a chat; of a passage that is cut in the middle of it, up to its end.
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_WORD = re.compile(r"[^\W_]{3,}")
_LOOKED_UP = re.compile(r"\d|https?://|(?<=[a-z,;] )[A-Z][a-z]+")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a chat, or a short line of a turn, with the words it is weighed by and what it tells (of KINDS)."""

    order: int
    speaker: str  # as it is shown (shared/turns/speakers.py)
    timestamp: float
    text: str
    words: frozenset[str]
    kind: str = "said"
    telling: float = 0.0


def summarise(chunks: list[Chunk], most: int | None = None) -> tuple[list[Sentence], list[str]]:
    """(chosen sentences in the order of time, words often used) of one chat's chunks; `most`: the most sentences, those of the greatest weight.

    A document counts by the label of its turn, which has its summary: else one contract would be the whole chat's.
    """
    chunks = [chunk for chunk in chunks if not chunk.of_a_file]
    candidates = _sentences(chunks)
    counts: Counter[str] = Counter(word for sentence in candidates for word in sentence.words - CHATTER)
    newest = max((chunk.ended_at for chunk in chunks), default=0.0)
    ranked = sorted(candidates, key=lambda s: (-_weight(s, counts, newest), s.order))
    by_use = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    topics = [w for w, count in by_use if count >= LEAST_MENTIONS and len(w) >= SHORTEST_TOPIC and not w.isdigit()]
    chosen = _choose(ranked)
    if most is not None:
        chosen = [one for one in ranked if one in chosen][:most]
    return sorted(chosen, key=lambda s: s.order), topics[:TOPICS]


def _sentences(chunks: list[Chunk]) -> list[Sentence]:
    found: list[Sentence] = []
    marks, unanswered = namesakes({chunk.person for chunk in chunks}), _unanswered(chunks)
    for number, chunk in enumerate(chunks):
        who = chunk.who(marks.get(chunk.person, ""))
        for line in _CODE.sub("\n", chunk.text).split("\n"):
            for part in [line] if len(line) <= LONGEST_SENTENCE else sentences(line):
                text = one_line(part)
                said = frozenset(word.casefold() for word in _WORD.findall(text))
                words = said - QUESTION_WORDS
                if len(text) >= SHORTEST_SENTENCE and len(words - CHATTER) > 1:
                    kind, telling = _kind(text, said, unanswered=number >= unanswered)
                    shown = shorten(text, LONGEST_SENTENCE)
                    found.append(Sentence(len(found), who, chunk.started_at, shown, words, kind, telling))
    return found


def _unanswered(chunks: list[Chunk]) -> int:
    """Where the words begin after which nobody else has spoken, in a chat of more than one."""
    speakers = [(chunk.role, chunk.speaker) for chunk in chunks]
    return next((at + 1 for at in reversed(range(len(speakers))) if speakers[at] != speakers[-1]), len(chunks))


def _kind(text: str, said: frozenset[str], *, unanswered: bool) -> tuple[str, float]:
    """(what it tells, and how much that raises its weight)."""
    own, done, ahead, when = bool(OWN.search(text)), len(said & DONE), bool(said & AHEAD), bool(said & WHEN)
    telling = TELLING["own"] * own + TELLING["done"] * min(2, done) + TELLING["when"] * when
    if text.endswith("?"):
        return "open" if unanswered else "said", telling
    if own:
        return "who", telling
    return "settled" if done or (when and not ahead) else "open" if ahead else "said", telling


def _weight(sentence: Sentence, counts: Counter[str], newest: float) -> float:
    content = sentence.words - CHATTER
    saying = sum(math.log1p(counts[word]) for word in content) / len(content)
    looked_up = 1.0 + 0.25 * min(3, len(_LOOKED_UP.findall(sentence.text)))
    telling = 1.0 + sentence.telling
    asking = 0.5 if sentence.text.endswith("?") else 1.0
    age_days = max(0.0, newest - sentence.timestamp) / 86_400
    answering = ASSISTANT_WEIGHT if sentence.speaker == "assistant" else 1.0
    density = 1 / math.sqrt(100 + len(sentence.text))
    return (
        density
        * saying
        * looked_up
        * telling
        * asking
        * answering
        * max(OLDEST_WEIGHT, math.pow(0.5, age_days / HALF_LIFE_DAYS[sentence.kind]))
    )


def _choose(ranked: list[Sentence]) -> list[Sentence]:
    """First the best of each kind up to its share, then the best of all."""
    chosen: list[Sentence] = []
    room = SUMMARY_CHARACTERS
    for kind, share in [*KINDS.items(), (None, 1.0)]:
        left = min(room, int(share * SUMMARY_CHARACTERS))
        for sentence in ranked if left else ():
            cost = len(sentence.text) + len(sentence.speaker) + AROUND
            if kind in (None, sentence.kind) and cost <= left and not any(_repeats(sentence, one) for one in chosen):
                chosen.append(sentence)
                left, room = left - cost, room - cost
            if left < SHORTEST_SENTENCE:
                break
    return chosen


def _repeats(sentence: Sentence, other: Sentence) -> bool:
    common = len(sentence.words & other.words)
    return common / min(len(sentence.words), len(other.words)) > REPEATED_SHARE
