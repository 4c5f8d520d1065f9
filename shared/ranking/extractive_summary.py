"""Extractive summary of one chat, as a pure function: what says most, word for word. A chat that is short enough stands in it whole.

Of each of the latest conversations the sentences of the greatest weight come first, then those of all. A sentence's weight is how much it says (the
mean, over its content words, of how often the chat uses the word, on a log scale: SumBasic, Nenkova and Vanderwende 2005, with a log against single
repeated words), raised by what people look up (numbers, names, links), times 0.5^(age / 30 days), where age is counted from the chat's newest turn:
no clock enters, so a rebuild gives the same text. A sentence that repeats a chosen one is left out, so of what was said again the newer stays. A
short line of a turn is taken whole: its sentences explain each other. No rule guesses what a sentence is about, and none reads one language alone.
The whole archive is read each night; nothing is chained from yesterday's summary.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from shared.ranking.question import content_words, query_words
from shared.text.format import one_line, shorten
from shared.text.words.function_words import COURTESY, language_of, plain
from shared.turns.chunk import Chunk
from shared.turns.chunking import sentences
from shared.turns.speakers import namesakes

#: Raise it when the same chunks would give another summary.
SUMMARY_VERSION = 6
#: How the first line of a summary ends that holds nothing but what was said.
AS_SAID = "As they were said, newest first."
#: Bound of a summary's lines, in characters: with its head it fits where nothing is recalled, at the default budget.
SUMMARY_CHARACTERS = 2200
#: Days in which a sentence loses half of its weight, and the share that it keeps however old: what was said once and for all must be able to stay.
HALF_LIFE_DAYS, OLDEST_WEIGHT = 30.0, 0.05
#: Seconds of silence after which a new conversation begins, how many of the latest conversations come first, and with how many sentences each.
PAUSE_SECONDS, CONVERSATIONS, OF_EACH = 4 * 3600.0, 5, 3
#: An assistant that talks to everybody says less about the chat than those who do; a question says less than its answer.
ASSISTANT_WEIGHT = QUESTION_WEIGHT = 0.5
SHORTEST_SENTENCE, LONGEST_SENTENCE = 20, 300
#: Share of common words above which a sentence repeats another.
REPEATED_SHARE = 0.6
#: Characters of a line beside its words and its speaker: `- 2026-11-20 `, `: ` and the line break.
AROUND = 16

#: Code tells nothing of a chat; of a passage that is cut in the middle of it, up to its end.
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LOOKED_UP = re.compile(r"\d|https?://|(?<=[a-z,;] )[A-Z][a-z]+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a chat, or a short line of a turn, with the words it is weighed by and the number of its conversation."""

    order: int
    speaker: str  # as it is shown (shared/turns/speakers.py)
    timestamp: float
    text: str
    words: tuple[str, ...]  # each once; no set, since a chat may have very many sentences
    conversation: int = 0

    @property
    def cost(self) -> int:
        """Characters of its line."""
        return len(self.text) + len(self.speaker) + AROUND


def summarise(chunks: list[Chunk], most: int | None = None) -> list[Sentence]:
    """The chosen sentences of one chat's chunks in the order of time; `most`: the most sentences, those of the greatest weight.

    A document counts by the label of its turn, which has its summary: else one contract would be the whole chat's.
    """
    chunks = [chunk for chunk in chunks if not chunk.of_a_file]
    said = list(_sentences(chunks))
    if most is None and sum(one.cost for one in said) <= SUMMARY_CHARACTERS:
        return [one for one in said if len(one.words) > (one.speaker == "assistant")]  # not "ok", nor its "Noted."
    candidates = [one for one in said if len(one.text) >= SHORTEST_SENTENCE and len(one.words) > 1]
    counts: Counter[str] = Counter(word for sentence in candidates for word in sentence.words)
    newest = max((chunk.ended_at for chunk in chunks), default=0.0)
    ranked = sorted(candidates, key=lambda s: (-_weight(s, counts, newest), s.order))
    chosen = _choose(ranked if most is not None else [*_best_of_latest(ranked), *ranked])
    return sorted(chosen[:most], key=lambda s: s.order)


def _sentences(chunks: list[Chunk]) -> Iterator[Sentence]:
    marks, order, conversation, before = namesakes({chunk.person for chunk in chunks}), 0, 0, 0.0
    known: dict[str, str] = {}  # one string a word
    for chunk in chunks:
        who = chunk.who(marks.get(chunk.person, ""))
        conversation += chunk.started_at - before > PAUSE_SECONDS
        before = chunk.started_at
        for line in _CODE.sub("\n", chunk.text).split("\n"):
            for part in [line] if len(line) <= LONGEST_SENTENCE else sentences(line):
                if text := one_line(part):
                    shown = shorten(text, LONGEST_SENTENCE)
                    shown = chunk.text if shown == chunk.text else shown  # one string
                    yield Sentence(order, who, chunk.started_at, shown, _words(text, known), conversation)
                    order += 1


def _words(text: str, known: dict[str, str]) -> tuple[str, ...]:
    """The words of a text that say something: without function words and courtesy."""
    words = query_words(text)
    language = language_of(words)
    idle = COURTESY[language]
    return tuple(
        known.setdefault(word, word)
        for word in dict.fromkeys(content_words(words, language))
        if plain(word) not in idle
    )


def _weight(sentence: Sentence, counts: Counter[str], newest: float) -> float:
    saying = sum(math.log1p(counts[word]) for word in sentence.words) / len(sentence.words)
    looked_up = 1.0 + 0.25 * min(3, len(_LOOKED_UP.findall(sentence.text)))
    asking = QUESTION_WEIGHT if sentence.text.endswith(("?", "？", "؟")) else 1.0
    answering = ASSISTANT_WEIGHT if sentence.speaker == "assistant" else 1.0
    age_days = max(0.0, newest - sentence.timestamp) / 86_400
    density = 1 / math.sqrt(100 + len(sentence.text))
    lately = max(OLDEST_WEIGHT, math.pow(0.5, age_days / HALF_LIFE_DAYS))
    return density * saying * looked_up * asking * answering * lately


def _best_of_latest(ranked: list[Sentence]) -> Iterator[Sentence]:
    """The best of each of the latest conversations, the latest first."""
    for conversation in sorted({one.conversation for one in ranked}, reverse=True)[:CONVERSATIONS]:
        yield from [one for one in ranked if one.conversation == conversation][:OF_EACH]


def _choose(ranked: list[Sentence]) -> list[Sentence]:
    """As many as there is room for, in this order, none that repeats another."""
    chosen: list[Sentence] = []
    room = SUMMARY_CHARACTERS
    for sentence in ranked:
        if room < SHORTEST_SENTENCE:
            break
        if sentence.cost <= room and not any(_repeats(sentence, one) for one in chosen):
            chosen.append(sentence)
            room -= sentence.cost
    return chosen


def _repeats(sentence: Sentence, other: Sentence) -> bool:
    common = len({*sentence.words} & {*other.words})
    return common / min(len(sentence.words), len(other.words)) > REPEATED_SHARE
