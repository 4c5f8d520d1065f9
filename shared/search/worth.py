"""How likely a recalled passage helps to answer the message, and whether that is worth its place in the prompt: pure functions over hits.

A logistic regression on what the ranking knows, fitted to the 1,266 questions of three kinds of talk (LoCoMo, REALTALK, BEAM; each kind counts the
same; a hit helps if one of its turns is evidence), and to 307 of the first two asked in a chat where nobody has said it, which count half. Fitted on
two kinds it is calibrated on the third (docs/measurements.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shared.embedding.known_models import is_measured, likeness

if TYPE_CHECKING:
    from shared.search.types import Hit

#: Weights of: score, ln(1 + place), share of the message's words, likeness, what it is below the greatest likeness, ln(20 + characters), best score.
WITH_VECTORS, BIAS_WITH_VECTORS = (2.999, -0.507, 1.062, 4.786, -1.072, 0.283, -1.276), -7.731
#: The same without both likenesses, where no language model whose scale is known has compared them.
BY_WORDS, BIAS_BY_WORDS = (3.177, -0.687, 1.880, 0.211, -1.637), -4.957
#: Characters of a line of ordinary length: what is longer must help the more, by the square root.
ORDINARY = 160
#: Turns of a chat of the sets that this was fitted to.
ORDINARY_CHAT = 400
#: The least worth of a line, by a simulated week (docs/measurements.md): by this alone, .01 recalls 261 tokens of which 65 % are to the point; .005
#: 433 and 49 %; .02 166 and 80 %, and a fiftieth of the questions loses its evidence.
LEAST = 0.012
#: The first lines need less, and more of them do where a time bounds the search ("How much did I spend this week?" asks for all of it).
FIRST, FIRST_OF_A_TIME, LEAST_FIRST = 3, 15, 0.003
#: If the three likeliest lines together help with less than this probability, the others need more worth, by as much as it falls short. Measured on
#: the three kinds of talk: where it is below .15, one in a thousand of 2,500 such lines helped (.8 % were expected).
ANSWERED = 0.5


def probabilities(
    hits: Sequence[Hit], standing: Mapping[str, float], family: str | None, items: int = ORDINARY_CHAT
) -> dict[str, float]:
    """Chunk id → the probability that it helps, 0 to 1. `standing`: chunk id → score; `family`: of the model behind the cosines, None for none;
    `items`: turns of the chat, of which each of a few is the likelier to be the one."""
    order = sorted(hits, key=lambda hit: -standing[hit.chunk.chunk_id])
    best = max(standing.values(), default=0.0)
    measured = is_measured(family)
    alike = {
        hit.chunk.chunk_id: max(0.0, likeness(hit.scores["cosine"], family))
        for hit in hits
        if measured and "cosine" in hit.scores
    }
    nearest, found = max(alike.values(), default=0.0), {}
    of_few = max(1.0, math.sqrt(ORDINARY_CHAT / max(1, items)))
    weights, bias = (WITH_VECTORS, BIAS_WITH_VECTORS) if alike else (BY_WORDS, BIAS_BY_WORDS)
    for place, hit in enumerate(order):
        name = hit.chunk.chunk_id
        near = [alike.get(name, 0.0), nearest - alike.get(name, 0.0)] if alike else []
        values = [standing[name], math.log1p(place), hit.words or 0.0, *near, math.log(20 + len(hit.chunk.text)), best]
        odds = bias + sum(weight * value for weight, value in zip(weights, values, strict=True))
        found[name] = min(1.0, of_few / (1 + math.exp(-odds)))
    return found


def least_worths(helps: Sequence[float], first: int = FIRST) -> list[float]:
    """The least worth of the lines with these probabilities, from the first to the last: the less the likeliest of them seem to answer, the more."""
    answered = 1 - math.prod(1 - one for one in sorted(helps, reverse=True)[:FIRST])
    return [LEAST_FIRST if at < first else LEAST * max(1.0, ANSWERED / max(answered, 1e-6)) for at in range(len(helps))]


def worth(probability: float, characters: int) -> float:
    """What a line of so many characters is worth."""
    return probability / math.sqrt((characters + 30) / ORDINARY)
