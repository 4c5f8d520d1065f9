"""The turns of one chat in the order of time, of release and day together: no ranking. Read backwards from the newest, and no further than asked."""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from shared.errors import InvalidInput
from shared.text.writing import is_one_character
from shared.turns.records import time_order

if TYPE_CHECKING:
    from shared.search.recall import OpenRelease
    from shared.turns.records import Turn

#: Turns whose words are looked at together.
AT_ONCE = 100
_PIECE = re.compile(r'"([^"]*)"|“([^”]*)”|([^\s"“]+)')


@dataclass(frozen=True)
class HistoryQuery:
    """The newest `limit` turns of a chat, said from `since` on and before `until` (POSIX seconds).

    Each holds every word of `contains`, as the index has words: case and accents folded, English and Russian stemmed, a phrase in quotation marks.
    A Chinese or Thai word is a phrase of its pairs of characters, so it stands wherever it stands in the text.
    """

    chat_id: str
    limit: int
    since: float | None = None
    until: float | None = None
    contains: str | None = None


@dataclass(frozen=True)
class TurnHistory:
    """Turns in the order of time; `more`: older ones would fit, too."""

    turns: Sequence[Turn]
    more: bool


def history(
    asked: HistoryQuery,
    release: OpenRelease | None,
    day: Iterable[Turn] = (),
    of_day: Collection[str] = (),
    hidden: Collection[str] = (),
) -> TurnHistory:
    """`day`: turns of the day from that time, newest first; `of_day`: the ids of all turns of the chat's day, which are not read from the release.

    `hidden` (turn ids) are forgotten. InvalidInput if `contains` holds no word, ReleaseRefused if the release's texts cannot be read.
    """
    with closing(_Words(asked.contains)) as words:
        leave_out = set(of_day).union(hidden)
        released = (
            release.turns_back(asked.chat_id, words.terms, asked.since, asked.until, leave_out) if release else ()
        )
        todays = (turn for turn in day if turn.turn_id not in hidden)
        both = heapq.merge(words.holding(todays), words.holding(released), key=time_order, reverse=True)
        found = list(islice(both, asked.limit + 1))
    return TurnHistory(sorted(found[: asked.limit], key=time_order), len(found) > asked.limit)


class _Words:
    """The words that each turn is to hold; none for None."""

    def __init__(self, text: str | None) -> None:
        from shared.ranking.tokeniser import Tokeniser

        self._tokeniser = Tokeniser()
        pieces = ["".join(groups) for groups in _PIECE.findall(text or "")]
        # One piece of several tokens ("e-mail") is a phrase, too.
        self._phrases = [tuple(terms) for terms in self._tokeniser.in_order(pieces) if terms]
        if text is not None and not self._phrases:
            self.close()
            raise InvalidInput(f"{text!r} contains no searchable word. Write words, or leave it out.")

    @property
    def terms(self) -> list[str]:
        return sorted({term for phrase in self._phrases for term in phrase})

    def holding(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """Those of the turns that hold all of the words."""
        if not self._phrases:
            yield from turns
            return
        left = iter(turns)
        while some := list(islice(left, AT_ONCE)):
            tokenised = self._tokeniser.in_order([turn.remembered for turn in some])
            yield from (turn for turn, terms in zip(some, tokenised, strict=True) if self._in(terms))

    def _in(self, terms: Sequence[str]) -> bool:
        there = set(terms)
        return all(
            (len(phrase) == 1 and _within_pairs(phrase[0], there))
            or (there.issuperset(phrase) and (len(phrase) == 1 or _stands(phrase, terms)))
            for phrase in self._phrases
        )

    def close(self) -> None:
        self._tokeniser.close()


def _within_pairs(term: str, there: set[str]) -> bool:
    """Whether a single character of what is written without blanks is within a pair of them."""
    return is_one_character(term) and any(term in other for other in there)


def _stands(phrase: tuple[str, ...], terms: Sequence[str]) -> bool:
    return any(tuple(terms[at : at + len(phrase)]) == phrase for at in range(len(terms) - len(phrase) + 1))
