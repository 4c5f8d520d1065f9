"""Which typed memories contain the words of a question."""

from __future__ import annotations

import math
import string
from collections.abc import Collection, Iterable

from dispatcher.memory.relevance import content_roots, text_roots
from shared.search.word_lookup import MOST_HOLDING, MOST_PARTS, SHORTEST_PART

#: The weight of a word that contains a word of the question, as in shared/ranking/scoring.py, which loads numpy.
PART = 0.5
#: Single letters are not words: "what's" leaves an "s".
_LETTERS = frozenset(string.ascii_lowercase)


class MemoryWords:
    """An index of texts by their words, ignoring endings."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._at: dict[str, set[int]] = {}
        self._texts = 0
        for row, text in enumerate(texts):
            self._texts += 1
            for root in text_roots(text):
                self._at.setdefault(root, set()).add(row)

    def shares(self, question: str, *, parts: bool = True) -> dict[int, float]:
        """Row → share (0 to 1) of the question's content words in it, weighted by their rarity, as for turns.

        A word that is in no text is searched for within words (with `parts`); if it is not found there either, it counts as the rarest.
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
