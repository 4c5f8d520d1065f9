"""Which hits are injected, once it is decided that some are, and in which order they fill the budget: pure functions over hits.

An earlier question of the person that nearly repeats the message is left out, and their other questions come after statements, further passages of a
turn after everything else. A line is taken if what it is worth is more than its place in the prompt; of a question about days counted
from the day of asking ("this week"), only what was said then, names them, or clearly answers whenever it was said. For a requested day, the most
informative turns come first, without repetitions.

How likely a passage helps is a logistic regression on what the ranking knows, fitted to the 1,266 questions of three kinds of talk (LoCoMo, REALTALK,
BEAM; each kind counts the same; a hit helps if one of its turns is evidence), and to 307 of the first two asked in a chat where nobody has said it,
which count half. Fitted on two kinds it is calibrated on the third (docs/measurements.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shared.embedding.known_models import is_measured, likeness
from shared.ranking.question import asks, content_words, query_words, spoken
from shared.text.caches import cached
from shared.text.words.function_words import ANY_ASKING, KEPT_MESSAGES, plain
from shared.text.words.stemming import stemmed
from shared.text.writing import is_unspaced
from shared.turns.speakers import is_named

if TYPE_CHECKING:
    from shared.ranking.injection import Decision
    from shared.search.types import Hit

#: Share of common content words from which on a question is the same as the message, and how many times its length it may have.
REPEATED, LONGER = 0.7, 2
#: Taken off a person's question that states nothing.
OWN_QUESTION = 0.15
#: A question up to this length states nothing beside; longer ones tell what they ask about ("I'm working on …, can you …?").
BARE_QUESTION = 120
#: Of a day: new words of a turn that count, what an assistant's turn and a bare question weigh, and the length at which a turn counts half.
NEW_WORDS, ANSWER, QUESTION, LONG = 12, 0.5, 0.3, 400
#: A line that helps with this probability is taken although it was said at another time: "today" may be when somebody buys what he asks about.
CLEAR = 0.25
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
_SENTENCES = re.compile(r"(?<=[.!?…])\s+")


def chosen(
    message: str,
    hits: Sequence[Hit],
    decision: Decision,
    family: str | None = None,
    items: int = ORDINARY_CHAT,
    *,
    from_now: bool = False,
) -> list[Hit]:
    """The hits to inject, in the order in which they fill the budget. `family`: of the model behind their cosines; `items`: of the chat; `from_now`:
    the message names days counted from the day of asking."""
    left = [hit for hit in hits if not repeats(message, hit)]
    if decision.spans:
        then = [hit for hit in left if any(first <= hit.chunk.started_at < end for first, end in decision.spans)]
        return most_telling(then)
    first, helps = FIRST, _helps(left, family, items)
    if from_now and (many := sum(map(_matches_time, left))):
        left = [hit for hit in left if _matches_time(hit) or helps[hit.chunk.chunk_id] >= CLEAR]
        first, helps = FIRST_OF_A_TIME, _helps(left, family, many)
    worths = [(worth(helps[hit.chunk.chunk_id], len(hit.chunk.text)), hit) for hit in left]
    order = zip(sorted(worths, key=lambda pair: -pair[0]), least_worths(list(helps.values()), first), strict=True)
    return _once([hit for (value, hit), least in order if value >= least])


def _matches_time(hit: Hit) -> bool:
    """Whether it was said in a time that the message names, or names a day of it."""
    return bool(hit.scores.get("said_then") or hit.scores.get("dated"))


def _helps(hits: Sequence[Hit], family: str | None, items: int) -> dict[str, float]:
    """Chunk id → the probability that it helps, in a chat or a time of so many turns."""
    among_people = any(is_person(hit) for hit in hits if hit.chunk.role != "user")
    standing = {hit.chunk.chunk_id: _standing(hit, among_people=among_people) for hit in hits}
    return probabilities(hits, standing, family, items)


def _once(hits: Sequence[Hit]) -> list[Hit]:
    """The same, with the best passage of each turn ahead of all further ones."""
    first: dict[tuple[str, ...], str] = {}
    for hit in hits:
        first.setdefault(hit.chunk.turn_ids, hit.chunk.chunk_id)
    return sorted(hits, key=lambda hit: first[hit.chunk.turn_ids] != hit.chunk.chunk_id)


def is_person(hit: Hit) -> bool:
    """Whether the speaker is a person, not an assistant."""
    return hit.chunk.role == "user" or is_named(hit.chunk.role, hit.chunk.speaker)


def _standing(hit: Hit, *, among_people: bool) -> float:
    """The score, less what all that was said at a time have in common, and what a bare question of the person loses: between people a question tells
    as much as the rest."""
    asks = not among_people and hit.chunk.role == "user" and only_asks(hit.chunk.text)
    return hit.rank - hit.scores.get("said_then", 0.0) - (OWN_QUESTION if asks else 0.0)


def only_asks(text: str) -> bool:
    """Whether every sentence is a question."""
    return (
        len(text) <= BARE_QUESTION and asks(text) and all(asks(sentence) for sentence in _SENTENCES.split(text.strip()))
    )


def repeats(message: str, hit: Hit) -> bool:
    """Whether a hit is an earlier question of the person that is nearly the message."""
    text = hit.chunk.text
    if hit.chunk.role != "user" or len(text) > LONGER * (len(message) + 10):
        return False  # most hits, without a look at their words
    if not asks(text) and plain(spoken(text).partition(" ")[0]) not in ANY_ASKING:
        return False
    one, other = _content(spoken(message)), _content(spoken(text))
    return len(one & other) >= REPEATED * len(one | other)


@cached(KEPT_MESSAGES)
def _content(said: str) -> frozenset[str]:
    """Content words as stems, or all words of what has none."""
    words = said.split(" ")
    return frozenset(stemmed(plain(word)) for word in content_words(words) or words)


def most_telling(hits: Sequence[Hit]) -> list[Hit]:
    """The same, ordered by what each adds to the ones before it: statements of people first, without repetitions."""
    said: set[str] = set()
    order: list[Hit] = []
    left = [
        (hit, {word for word in query_words(hit.chunk.text) if len(word) > 3 or word.isdigit() or is_unspaced(word)})
        for hit in hits
    ]
    while left:
        best = max(range(len(left)), key=lambda at: _adds(*left[at], said))
        hit, words = left.pop(best)
        said |= words
        order.append(hit)
    return order


def _adds(hit: Hit, words: set[str], said: set[str]) -> float:
    chunk = hit.chunk
    weight = 1.0 if is_person(hit) else ANSWER
    weight *= QUESTION if only_asks(chunk.text) else 1.0
    return weight * min(NEW_WORDS, len(words - said)) / (1 + len(chunk.text) / LONG)


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
