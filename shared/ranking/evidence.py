"""The evidence that a lookup has of a message (shared/ranking/injection.py), out of a chat's arrays. Pure, numpy only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from shared.ranking.scoring import Array, Posting

#: In a chat of fewer items than this no word is common.
FEW_ITEMS = 20


def coverage(words: Sequence[Sequence[str]], postings: Mapping[str, Posting], n: int) -> tuple[float, float, int]:
    """(greatest share of these words, each by its rarity, that stand in one of n items or beside it, that rarity, how many stand anywhere).

    Each word is given as its terms. What stands nowhere is as rare as a word can be.
    """
    held, weight, found, many = np.zeros(n, np.float32), 0.0, 0, max(n, FEW_ITEMS)
    for terms in words:
        there = np.zeros(n, bool)
        for term in terms:
            if term in postings:
                there[postings[term][0]] = True
        often = int(np.count_nonzero(there))
        rarity = math.log(1 + (many - often + 0.5) / (often + 0.5))
        weight += rarity
        if often:
            found += 1
            beside = there.copy()
            beside[1:] |= there[:-1]
            beside[:-1] |= there[1:]
            held[beside] += rarity
    most = float(held.max()) if n else 0.0
    return most / weight if weight else 0.0, most / math.log(2 + 2 * many), found


def best_cosine(cosines: Array | None) -> float | None:
    """The highest cosine; None where there are none, or not for nearly all items.

    A few may wait for their vector: up to two items and a quarter of a small chat, of a large one a tenth.
    """
    if cosines is None or not len(cosines):
        return None
    known = cosines[~np.isnan(cosines)]
    missing = len(cosines) - len(known)
    if 4 * missing > len(cosines) or missing > max(2, len(cosines) // 10):
        return None
    return float(known.max())


def standing(postings: Mapping[str, Posting], n: int) -> Array:
    """How many of these terms stand in each item."""
    out = np.zeros(n, np.float32)
    for ordinals, _ in postings.values():
        out[ordinals] += 1
    return out
