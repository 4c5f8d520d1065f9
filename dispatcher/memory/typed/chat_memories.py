"""The typed memories of one chat as they are read for a prompt, and which of them contain the words of a question."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dispatcher.memory.relevance import content_roots, text_roots

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from shared.embedding.models import Vectors
    from shared.turns.records import Tombstone

#: The id of a memory's tombstone (dispatcher/memory/typed/actions.py) has the memory's.
_MARK = re.compile(r"f\d+-([0-9a-f]{16})-")
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

    def shares(self, question: str) -> dict[int, float]:
        """Row → share (0 to 1) of the question's content words in it, weighted by their rarity, as for turns; a word that is in no text counts as the
        rarest."""
        found: list[Collection[int]] = [self._at.get(word, ()) for word in content_roots(question) - _LETTERS]
        whole = sum(self._rarity(len(rows)) for rows in found)
        shares: dict[int, float] = {}
        for rows in found:
            for row in rows:
                shares[row] = shares.get(row, 0.0) + self._rarity(len(rows)) / whole
        return {row: min(1.0, share) for row, share in shares.items()}

    def _rarity(self, rows: int) -> float:
        return math.log(1 + (self._texts - rows + 0.5) / (rows + 0.5))


@dataclass(frozen=True)
class ChatMemories:
    """A chat's memories as read for a prompt: rows, and vectors of shape (n, dimensions), NaN for a missing one.

    Those in `hidden` (ids) are forgotten, but a crash prevented their removal. Only another `[FORGET:]` still finds them.
    """

    revision: str
    stored: str  # the store's revision of the chat's memories
    every: Sequence[Memory]
    vectors: Vectors | None
    hidden: frozenset[int] = frozenset()

    @cached_property
    def memories(self) -> Sequence[Memory]:
        """The valid ones, in the order they were created."""
        return [one for one in self.shown if one.memory_id not in self.superseded]

    @cached_property
    def shown(self) -> Sequence[Memory]:
        """The valid and the superseded ones."""
        return [one for one in self.every if one.memory_id not in self.hidden]

    @cached_property
    def superseded(self) -> dict[int, int]:
        """Memory id → id of its successor. A hidden or removed successor is skipped; without another one the memory is valid."""
        by = {one.memory_id: one.superseded_by for one in self.every}

        def newer(memory_id: int) -> int | None:
            found = by[memory_id]
            for _ in by:
                if found is None or found not in by:
                    return None
                if found not in self.hidden:
                    return found
                found = by[found]
            return None

        return {one: found for one in by if (found := newer(one)) is not None}

    @cached_property
    def successors(self) -> dict[int, Memory]:
        """Memory id → the memory that took its place."""
        every = {one.memory_id: one for one in self.every}
        return {one: every[by] for one, by in self.superseded.items()}

    @property
    def superseded_numbers(self) -> dict[int, int]:
        """Memory id → the number, as people know it, of its successor."""
        return {one: by.number for one, by in self.successors.items()}

    @cached_property
    def index(self) -> MemoryWords:
        """The words by which `every` memory is found."""
        return MemoryWords(" ".join(memory.texts) for memory in self.every)


def marks_of(tombstones: Iterable[Tombstone]) -> frozenset[str]:
    """Uids of forgotten memories."""
    found = (_MARK.match(tombstone.tombstone_id) for tombstone in tombstones)
    return frozenset(match[1] for match in found if match)
