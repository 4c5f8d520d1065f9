"""Whether a new memory says what a stored one says: in the same words, or nearly, judged by vectors and by what vectors blur.

What replaces what is Claude's to say (`| REPLACES: 12`). A near duplicate is kept as a confirmation of the memory that says it already; anything
else is stored, and a near memory is named, so that Claude or the person can replace it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from shared.ranking.question import query_words
from shared.text.caches import cached
from shared.text.dates.calendar_words import WORDS, with_or_without_accents

if TYPE_CHECKING:
    from dispatcher.memory.store.memories import Memory
    from shared.embedding.models import Vectors

#: Words that are written in capitals only because they begin a text.
_FUNCTION = frozenset(
    "the user users a an i my der die das ich mein meine le la les je mon ma el yo mi o eu meu il io мой я".split()
)
#: Words that turn a statement into its opposite, in the languages of shared/text/dates.
_DENIALS = frozenset(
    "not no never none nobody nothing without cannot dislikes hates unlike nicht kein keine keinen keiner keinem nie niemals niemand nichts ohne"
    " ne pas jamais aucun aucune sans sin nunca jamás ningún ninguna nadie nada não nem sem nenhum non mai senza nessuno не нет ни никогда без"
    " dont doesnt didnt isnt arent wasnt cant wont stopped quit".split()
)
_TOKEN = re.compile(r"\w+(?:[-'’!.:/@]\w+)*")
_MARKS = re.compile(r"['’]s\Z|[-'’!.]")
#: Family of a model → the cosines from which two memories with the same details say the same, and from which a memory is named as near. Of
#: tests/data/fact_pairs.jsonl and the pairs of test_duplicates.py, the likest that do not say the same are at .967 and .953 ("is a father", "has a
#: father"). A model that is not measured joins only what is the same word for word.
LEAST = {"all-MiniLM-L6-v2": (0.97, 0.85), "multilingual-e5-small centred": (0.955, 0.83)}


@dataclass(frozen=True)
class Verdict:
    """`same`: a memory that already says it, `verbatim` in the same words; `near`: the nearest of the others, if it may be about the same."""

    same: Memory | None = None
    verbatim: bool = False
    near: Memory | None = None


@dataclass(frozen=True)
class Details:
    """What a text says besides its wording: all words in order, those written as names, numbers and calendar words in order, whether it denies."""

    words: tuple[str, ...]
    names: frozenset[str]
    numbers: tuple[str, ...]
    denied: bool


def judged(
    known: Sequence[Memory], vectors: Vectors | None, text: str, vector: Vectors | None, family: str | None
) -> Verdict:
    """How a text relates to the valid memories of its type; `vectors` are theirs, of shape (n, dimensions), NaN for a missing one. `family`: of the
    model that made the vectors."""
    words = spoken_words(text)
    for memory in known:
        if any(spoken_words(one) == words for one in memory.texts):
            return Verdict(memory, verbatim=True)
    if vectors is None or vector is None or family not in LEAST:
        return Verdict()
    same, about = LEAST[family]
    cosines = vectors @ vector
    near = sorted((cosines >= about).nonzero()[0].tolist(), key=lambda at: -float(cosines[at]))
    for at in near:
        if cosines[at] >= same and same_details(known[at].text, text):
            return Verdict(known[at])
    return Verdict(near=known[near[0]] if near else None)


def spoken_words(text: str) -> tuple[str, ...]:
    """A key that two texts share if they differ only in case and punctuation."""
    return tuple(query_words(text)) or (text.strip(),)


def same_details(one: str, other: str) -> bool:
    """Whether two texts have the same names, numbers and dates in the same order, and both deny or neither."""
    first, second = details_of(one), details_of(other)
    if first.denied != second.denied or first.numbers != second.numbers:
        return False
    if not (first.names <= set(second.words) and second.names <= set(first.words)):
        return False
    shared = first.names | second.names
    if [word for word in first.words if word in shared] != [word for word in second.words if word in shared]:
        return False  # "Tom owes Anna" is not "Anna owes Tom"
    return sorted(first.words) != sorted(second.words) or first.words == second.words


@cached(20_000)
def details_of(text: str) -> Details:
    tokens = _TOKEN.findall(text)
    words = tuple(_MARKS.sub("", token).casefold() for token in tokens)
    names = {
        word for word, token in zip(words, tokens, strict=True) if token != token.lower() and word not in _FUNCTION
    }
    numbers = tuple(found for word in words if (found := _number(word)))
    return Details(words, frozenset(names), numbers, sum(word in _DENIALS for word in words) % 2 == 1)


@cached(20_000)
def _number(word: str) -> str:
    """What a number or a word of the calendar means; "" for any other word. "A" and "one" are no numbers."""
    if any(character.isdigit() for character in word):
        return word
    return next((meant for pattern, meant in _counted() if pattern.fullmatch(word)), "")


@cache
def _counted() -> list[tuple[re.Pattern[str], str]]:
    def table(forms: Sequence[str], name: str, first: int = 0) -> list[tuple[re.Pattern[str], str]]:
        return [
            (re.compile(with_or_without_accents(form)), f"{name}{at}") for at, form in enumerate(forms) if at >= first
        ]

    return [
        one
        for words in WORDS.values()
        for one in (
            *table(words["numbers"], "", 1),
            *table(words["weekdays"], "day"),
            *table(words["months"], "month"),
        )
    ]
