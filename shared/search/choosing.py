"""Which hits are injected, once it is decided that some are, and in which order they fill the budget: pure functions over hits.

An earlier question of the person that nearly repeats the message is left out, and their other questions come after statements. What a person said
shortly comes ahead of the assistant's answer to it, and further passages of a turn after everything else. The list ends where the score drops to that
of any turn of the chat. For a requested day, the most informative turns come first, without repetitions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.embedding.known_models import likeness
from shared.ranking.question import asks, content_words, query_words, spoken
from shared.text.caches import cached
from shared.text.words.function_words import ANY_ASKING, KEPT_MESSAGES, plain
from shared.text.words.stemming import stemmed
from shared.text.writing import is_unspaced
from shared.turns.speakers import is_named

if TYPE_CHECKING:
    from shared.ranking.injection import Decision, Evidence
    from shared.search.types import Hit

#: Share of common content words from which on a question is the same as the message, and how many times its length it may have.
REPEATED, LONGER = 0.7, 2
#: Taken off a person's question that states nothing.
OWN_QUESTION = 0.15
#: A hit is told if its score is above the typical one of the chat by this share of the best one's lead. Of the evidence inside 2,000 tokens (250
#: questions a set: 335, 435, 143 turns of locomo-dev, realtalk-dev, beam-dev) .15 loses none, .20 one, .25 four, .30 ten; in chats cut down to 60
#: turns .15 loses 4, 16, 1 of 245, 223, 136 and keeps 16, 18, 35 of the first 40 hits, .25 loses 6, 25, 4 and keeps 11, 14, 26.
FALL_OFF = 0.15
#: Items of a chat under which the one in the middle is not typical: nothing is cut off.
FEWEST = 40
#: A question up to this length states nothing beside; longer ones tell what they ask about ("I'm working on …, can you …?").
BARE_QUESTION = 120
#: What a statement of a person is ahead of an answer where neither words nor similarity tell.
STATED = 0.2
#: Of a day: new words of a turn that count, what an assistant's turn and a bare question weigh, and the length at which a turn counts half.
NEW_WORDS, ANSWER, QUESTION, LONG = 12, 0.5, 0.3, 400
#: Likeness under which a long turn without a telling word is there for its neighbours alone.
FAR = 0.2
_SENTENCES = re.compile(r"(?<=[.!?…])\s+")


def chosen(
    message: str, hits: Sequence[Hit], evidence: Evidence, decision: Decision, family: str | None = None
) -> list[Hit]:
    """The hits to inject, in the order in which they fill the budget. `family`: of the model behind their cosines."""
    left = [hit for hit in hits if not repeats(message, hit)]
    if decision.spans:
        then = [hit for hit in left if any(first <= hit.chunk.started_at < end for first, end in decision.spans)]
        return most_telling(then)
    among_people = any(is_person(hit) for hit in left if hit.chunk.role != "user")
    standing = {hit.chunk.chunk_id: hit.rank if among_people else _standing(hit) for hit in left}
    if decision.blind:
        stated = {hit.chunk.chunk_id: STATED if hit.chunk.role == "user" else 0.0 for hit in left}
        return _once(sorted(left, key=lambda hit: -standing[hit.chunk.chunk_id] - stated[hit.chunk.chunk_id]))
    least = evidence.typical + FALL_OFF * (max(standing.values(), default=0.0) - evidence.typical)
    if evidence.items < FEWEST:
        least = float("-inf")
    ranked = sorted(
        (hit for hit in left if is_person(hit) or not beside(evidence, hit, family)),
        key=lambda hit: -standing[hit.chunk.chunk_id],
    )
    kept = [hit for hit in ranked if standing[hit.chunk.chunk_id] >= least]
    return _once(_stated_first(kept, left))


def _stated_first(kept: Sequence[Hit], among: Sequence[Hit]) -> list[Hit]:
    """The same, with what a person stated shortly ahead of the assistant's answer to it, even if `among` alone has it."""
    stated: dict[str, Hit] = {}
    for hit in among:
        chunk = hit.chunk
        if chunk.role == "user" and len(chunk.text) <= LONG and not only_asks(chunk.text):
            stated.setdefault(chunk.exchange, hit)
    order: dict[str, Hit] = {}
    for hit in kept:
        if not is_person(hit) and (own := stated.get(hit.chunk.exchange)):
            order.setdefault(own.chunk.chunk_id, own)
        order.setdefault(hit.chunk.chunk_id, hit)
    return list(order.values())


def _once(hits: Sequence[Hit]) -> list[Hit]:
    """The same, with the best passage of each turn ahead of all further ones."""
    first: dict[tuple[str, ...], str] = {}
    for hit in hits:
        first.setdefault(hit.chunk.turn_ids, hit.chunk.chunk_id)
    return sorted(hits, key=lambda hit: first[hit.chunk.turn_ids] != hit.chunk.chunk_id)


def beside(evidence: Evidence, hit: Hit, family: str | None) -> bool:
    """Whether a long answer ranks only for what stands near it: a short reply is understood by that, a page of code is not."""
    if len(hit.chunk.text) <= LONG or likeness(hit.scores.get("cosine", 1.0), family) >= FAR:
        return False
    own = {stemmed(plain(word)) for word in query_words(hit.chunk.text)}
    return own.isdisjoint(stemmed(plain(word)) for word in evidence.message.telling)


def is_person(hit: Hit) -> bool:
    """Whether the speaker is a person, not an assistant."""
    return hit.chunk.role == "user" or is_named(hit.chunk.role, hit.chunk.speaker)


def _standing(hit: Hit) -> float:
    """The score, less what a bare question of the person loses: between people a question tells as much as the rest."""
    return hit.rank - (OWN_QUESTION if hit.chunk.role == "user" and only_asks(hit.chunk.text) else 0.0)


def only_asks(text: str) -> bool:
    """Whether every sentence is a question, and no more is said."""
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
    """The same, ordered by what each adds to those before it: statements of people first, and nothing that is said already."""
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
