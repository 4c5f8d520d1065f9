"""Which memory a search text means, as `[DONE:]`, `[FORGET:]` and commands name one: it is acted on only if the match is unambiguous."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.memory.relevance import coverage
from dispatcher.memory.typed.duplicates import spoken_words

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.chat_memories import ChatMemories
    from shared.embedding.models import Vectors

#: A search text matches a memory from this score on (0 to 1, half by words, half by meaning), if no other is within the margin. All of 21
#: unambiguous texts match their memory and no other; 4 ambiguous and 5 wrong ones change nothing; the same from 0.40 to 0.45, with any margin from
#: 0.05 to 0.20. At 0.35 an ambiguous one acts, at 0.50 an unambiguous one matches nothing.
MATCHED, MARGIN = 0.45, 0.12
#: The same by words alone, without vectors: 15 of the 21, none wrong. At 0.50 it is 20, but "the guitar" completes another plan to learn.
MATCHED_BY_WORDS = 0.6
#: A part of a word matches from this length on. Characters.
SHORTEST_PART = 3
#: How many memories are named when a match is ambiguous.
MOST_CANDIDATES = 5


@dataclass(frozen=True)
class MemoryMatch:
    """Memories that match a search text, best first; `clear` if only the first matches. `stored` is the store's revision that was searched."""

    memories: Sequence[Memory]
    clear: bool
    stored: str


def matching(known: ChatMemories, rows: Sequence[int], text: str, likes: Vectors | None) -> MemoryMatch:
    """Of these rows, the memory that says exactly this, else those with its words or meaning, else the only one that has it as a part of a word.
    `likes`: how like each memory of the chat is to the text (`Remembering.likenesses`)."""
    valid = [one for at in rows if (one := known.every[at]).memory_id not in known.superseded]
    said = spoken_words(text)
    exact = [one for one in valid if any(spoken_words(known_as) == said for known_as in one.texts)]
    if len(exact) == 1:
        return MemoryMatch(exact, True, known.stored)
    scored = [(score, known.every[at]) for at in rows if (score := _score(known, at, text, likes))]
    if not scored:
        parts = [one for one in valid if len(text) >= SHORTEST_PART and text.casefold() in one.text.casefold()]
        return MemoryMatch(parts[:MOST_CANDIDATES], len(parts) == 1, known.stored)
    best = sorted(scored, key=lambda pair: -pair[0])[:MOST_CANDIDATES]
    near = [memory for score, memory in best if best[0][0] - score < MARGIN]
    # Rather a valid memory than one that it superseded.
    near = [memory for memory in near if memory.memory_id not in known.superseded] or near
    return MemoryMatch(near, len(near) == 1, known.stored)


def _score(known: ChatMemories, at: int, text: str, likes: Vectors | None) -> float:
    """0 to 1: the mean of the share of matching words and the likeness; words alone without a vector. 0 if it is too low."""
    words = max(coverage(text, one) for one in known.every[at].texts)
    like = math.nan if likes is None else float(likes[at])
    if math.isnan(like):
        return words if words >= MATCHED_BY_WORDS else 0.0
    mean = (words + max(0.0, like)) / 2
    return mean if mean >= MATCHED else 0.0
