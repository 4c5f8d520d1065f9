"""The turns of one chat in the order of time, of release and day together: no ranking. Read backwards from the newest, and no further than asked."""

from __future__ import annotations

import heapq
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from shared.errors import InvalidInput
from shared.ranking.tokeniser import Tokeniser
from shared.text.format import in_batches
from shared.text.writing import folded
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

    Each holds every piece of `contains` (words, or a phrase in quotation marks), case and accents folded: also within a word, and with its signs as
    they are written (`100%`). A word of letters and digits is found in its other forms, too, as the index has words.
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

    `hidden` (turn ids) are forgotten. InvalidInput if `contains` holds nothing, ReleaseRefused if the release's texts cannot be read.
    """
    words, leave_out = _Words(asked.contains), set(of_day).union(hidden)
    released = release.turns_back(asked.chat_id, asked.since, asked.until, leave_out) if release else ()
    todays = (turn for turn in day if turn.turn_id not in hidden)
    both = heapq.merge(words.holding(todays), words.holding(released), key=time_order, reverse=True)
    found = list(islice(both, asked.limit + 1))
    return TurnHistory(sorted(found[: asked.limit], key=time_order), len(found) > asked.limit)


class _Words:
    """What each turn is to hold; nothing for None.

    A piece stands anywhere in the text, also within a word, or, if it is only letters and digits, as words in another form (the tokeniser's).
    """

    def __init__(self, text: str | None) -> None:
        self._pieces = [piece for groups in _PIECE.findall(text or "") if (piece := folded("".join(groups)).strip())]
        if text is not None and not self._pieces:
            raise InvalidInput(f"{text!r} contains nothing to search for. Write words, or leave it out.")
        self._tokeniser = Tokeniser()
        plain = [piece if piece.replace(" ", "").isalnum() else "" for piece in self._pieces]
        self._phrases = [tuple(terms) for terms in self._tokeniser.in_order(plain)]

    def holding(self, turns: Iterable[Turn]) -> Iterator[Turn]:
        """Those of the turns that hold all of it."""
        for some in in_batches(turns, AT_ONCE):
            texts = [folded.__wrapped__(turn.remembered) for turn in some]  # the cache is for words
            pairs = [*zip(self._pieces, self._phrases, strict=True)]
            missing = [[phrase for piece, phrase in pairs if piece not in text] for text in texts]
            asked = [number for number, phrases in enumerate(missing) if phrases and all(phrases)]
            tokenised = dict(zip(asked, self._tokeniser.in_order([texts[number] for number in asked]), strict=True))
            for number, turn in enumerate(some):
                terms = tokenised.get(number, ())
                if all(phrase and _stands(phrase, terms) for phrase in missing[number]):
                    yield turn


def _stands(phrase: tuple[str, ...], terms: Sequence[str]) -> bool:
    return any(tuple(terms[at : at + len(phrase)]) == phrase for at in range(len(terms) - len(phrase) + 1))
