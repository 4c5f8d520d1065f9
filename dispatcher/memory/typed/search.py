"""Typed memories found by a question: by words and by meaning, with the scores that people are shown, among the turns that a search has found."""

from __future__ import annotations

import math
import string
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from dispatcher.memory.relevance import content_roots, text_roots
from shared.search.types import Hit, shown_score
from shared.search.word_lookup import MOST_HOLDING, MOST_PARTS, SHORTEST_PART

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.memories import Held
    from shared.ranking.scoring import Array
    from shared.search.types import Query

#: What a word that holds a word of the question counts for, as in shared/ranking/scoring.py, which loads numpy.
PART = 0.5
#: What is left of "what's" is no word.
_LETTERS = frozenset(string.ascii_lowercase)


class MemoryWords:
    """Where each word stands among texts, endings aside."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._at: dict[str, set[int]] = {}
        self._texts = 0
        for row, text in enumerate(texts):
            self._texts += 1
            for root in text_roots(text):
                self._at.setdefault(root, set()).add(row)

    def shares(self, question: str, *, parts: bool = True) -> dict[int, float]:
        """Row → share (0 to 1) of the question's words of content that stand in it, each by its rarity, as a turn's are counted.

        A word that stands nowhere is looked for within words (unless without `parts`); one that is not found there either counts as the rarest.
        """
        found: list[tuple[Collection[int], float]] = []
        missing = 0
        for word in content_roots(question) - _LETTERS:
            rows: Collection[int] = self._at.get(word, ())
            part = parts and not rows and len(word) >= SHORTEST_PART and missing < MOST_PARTS
            missing += not rows
            found.append((self._holding(word) if part else rows, PART if not rows else 1.0))
        whole = sum(self._rarity(len(rows)) for rows, _ in found)
        shares: dict[int, float] = {}
        for rows, weight in found:
            for row in rows:
                shares[row] = shares.get(row, 0.0) + weight * self._rarity(len(rows)) / whole
        return {row: min(1.0, share) for row, share in shares.items()}

    def _holding(self, part: str) -> set[int]:
        words = sorted((word for word in self._at if part in word), key=lambda word: (len(word), word))
        return set().union(*(self._at[word] for word in words[:MOST_HOLDING]))

    def _rarity(self, rows: int) -> float:
        return math.log(1 + (self._texts - rows + 0.5) / (rows + 0.5))


@dataclass(frozen=True)
class MemoryHit:
    """A memory that a search has found; words and meaning 0 to 1, None for a meaning that could not be asked."""

    memory: Memory
    words: float
    meaning: float | None

    @property
    def score(self) -> float:
        return shown_score(self.words, self.meaning)

    @property
    def label(self) -> str:
        return str(self.memory.type).replace("_", " ")


def found_memories(held: Held, query: Query, vector: Array | None, least: float) -> list[MemoryHit]:
    """Those that share a word with the query or are as near to it as `least` (a cosine), made in the time it asks for; best first."""
    shares = held.index.shares(query.text)
    cosines: Sequence[float] = [] if vector is None or held.vectors is None else (held.vectors @ vector).tolist()
    found = []
    for at, memory in enumerate(held.every):
        cosine = cosines[at] if cosines else math.nan
        early = query.since is not None and memory.created < query.since
        late = query.until is not None and memory.created >= query.until
        gone = memory.memory_id in held.hidden or memory.memory_id in held.superseded
        if not (early or late or gone) and (at in shares or cosine >= least):
            meaning = None if math.isnan(cosine) else min(1.0, max(0.0, cosine))
            found.append(MemoryHit(memory, shares.get(at, 0.0), meaning))
    return sorted(found, key=lambda hit: (-hit.score, -hit.memory.created))


def among(turns: Sequence[Hit], memories: Sequence[MemoryHit], k: int) -> list[Hit | MemoryHit]:
    """The first `k` of both: the turns in their order, a memory after as many of them as have a better score."""
    placed = [(sum(turn.score > one.score for turn in turns), one) for one in memories]
    rows: list[Hit | MemoryHit] = []
    for at, turn in enumerate(turns):
        rows += [one for place, one in placed if place == at]
        rows.append(turn)
    return [*rows, *(one for place, one in placed if place == len(turns))][:k]


def memory_json(hit: MemoryHit, zone: ZoneInfo) -> dict[str, Any]:
    """A memory as scripts read it beside turns (`hit_json`); `turn_ids` are those that told it."""
    memory = hit.memory
    meaning = None if hit.meaning is None else round(hit.meaning, 4)
    return {
        "kind": "memory",
        "number": memory.number,
        "type": str(memory.type),
        "label": hit.label,
        "turn_ids": (memory.source_turn or "").split(),
        "timestamp": memory.created,
        "date": datetime.fromtimestamp(memory.created, zone).isoformat(timespec="seconds"),
        "deadline": memory.deadline,
        "score": round(hit.score, 4),
        "scores": {"words": round(hit.words, 4), "meaning": meaning},
        "text": memory.text,
    }
