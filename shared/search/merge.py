"""A chat's items of the release and of the day merged, so that all are ranked on one scale, without hidden turns.

The items are in the order of time, whichever side they come from, as in a release that contains them all. So word statistics, neighbours of an
item and similarities are those of the whole chat (shared/ranking/scoring.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shared.ranking.scoring import Array, Features, Integers, Neighbours, Posting
from shared.search.chat_items import ChatItems, Items, sides_of
from shared.search.day_items import DayItems
from shared.search.types import HiddenTurns
from shared.turns.chunk import Chunk, turn_order
from shared.turns.speakers import Speaker

#: Which of these turns the release has chunks of, in one chat.
Holding = Callable[[str, Iterable[str]], Collection[str]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Merged(Items):
    """The ranked items. Rows are the release's (0, 1, …), then the day's; `order` and `places` are None if there is only the release."""

    release: ChatItems | None
    day: DayItems | None
    order: Integers | None = None  # (n,): the row of each item
    places: Integers | None = None  # (rows,): the item of each row, -1 for none

    def rows(self, items: Integers) -> list[int]:
        """The rows of these items."""
        rows: list[int] = (items if self.order is None else self.order[items]).tolist()
        return rows

    def of_day(self, row: int) -> Chunk:
        """The chunk of a row of the day."""
        if self.day is None:
            raise IndexError(f"row {row} is not in the release, and there are no day's turns")
        return self.day.turns[row - self.first_of_day].chunk

    @property
    def first_of_day(self) -> int:
        return len(self.release) if self.release else 0

    @property
    def has_day(self) -> bool:
        """Whether anything of the day is ranked."""
        return self.places is not None and bool((self.places[self.first_of_day :] >= 0).any())

    def day_questions(self, exchanges: Collection[str]) -> dict[str, str]:
        """The day's questions, by exchange (of a long one its first passage), without ones that are hidden or in the release."""
        if self.day is None or self.places is None:
            return {}
        found: dict[str, str] = {}
        for turn, item in zip(self.day.turns, self.places[self.first_of_day :], strict=True):
            chunk = turn.chunk
            if item >= 0 and chunk.role == "user" and chunk.exchange in exchanges and chunk.chat_id == self.chat_id:
                found.setdefault(chunk.exchange, chunk.text)
        return found

    def postings(self, of_release: Mapping[str, Posting], of_day: Mapping[str, Posting]) -> dict[str, Posting]:
        """The occurrences of terms among the items, for terms that have any, in the order of the terms."""
        if self.places is None:
            return dict(of_release)
        found: dict[str, Posting] = {}
        sides = ((of_release, self.places), (of_day, self.places[self.first_of_day :]))
        for term in sorted(of_release.keys() | of_day.keys()):
            parts = [_moved(postings[term], places) for postings, places in sides if term in postings]
            ordinals, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            if len(ordinals):
                found[term] = ordinals, counts
        return found

    def inside(self, since: float | None, until: float | None) -> NDArray[np.bool_] | None:
        """The items that were said from `since` on and before `until` (POSIX seconds); None for all."""
        if since is None and until is None:
            return None
        after = np.ones(len(self), bool) if since is None else self.starts >= since
        return after if until is None else after & (self.starts < until)

    def of_release(self, values: Array) -> Array:
        """Values of the release's rows for the items; 0 for those of the day."""
        if self.order is None:
            return values
        return np.concatenate([values, np.zeros(len(self.day or ()), np.float32)]).astype(np.float32)[self.order]

    def cosines(self, of_release: Array | None, of_day: Array | None) -> Array | None:
        """Similarities of the items; NaN for a side that was not compared, None if neither was."""
        if of_release is None and of_day is None:
            return None
        if self.order is None:
            return of_release
        one = np.full(self.first_of_day, np.nan, np.float32) if of_release is None else of_release
        two = np.full(len(self.day or ()), np.nan, np.float32) if of_day is None else of_day
        return np.concatenate([one, two]).astype(np.float32, copy=False)[self.order]


def _moved(posting: Posting, places: Integers) -> Posting:
    """To the items that these rows are, without rows that are none."""
    ordinals = places[posting[0]]
    there = ordinals >= 0
    return (ordinals, posting[1]) if there.all() else (ordinals[there], posting[1][there])


def merge(
    chat_id: str, release: ChatItems | None, day: DayItems | None, hidden: HiddenTurns, holding: Holding
) -> Merged:
    """Merge one chat's items; at least one side exists. A turn in both is taken from the release."""
    if release and not day and not _hides(release, hidden):
        same = {name: getattr(release, name) for name in ("chat_id", "speakers", "starts", "said_by", "features")}
        return Merged(**same, release=release, day=None)
    order = _order(release, _rows_of_day(chat_id, day, hidden, release, holding), day, hidden)
    first = len(release) if release else 0
    places = np.full(first + len(day or ()), -1, np.int32)
    places[order] = np.arange(len(order), dtype=np.int32)
    speakers, said_by = _speakers(release, day, order)
    starts = np.concatenate([side.starts for side in (release, day) if side is not None])[order]
    return Merged(
        chat_id=chat_id,
        speakers=speakers,
        starts=starts,
        said_by=said_by,
        features=_features(release, day, order, starts, (speakers, said_by)),
        release=release,
        day=day,
        order=order,
        places=places,
    )


def _hides(release: ChatItems, hidden: HiddenTurns) -> bool:
    """Whether any item of the release is hidden."""
    early = hidden.before is not None and bool((release.starts[:1] < hidden.before).any())
    return early or bool(hidden.turn_ids and len(release.rows_of(hidden.turn_ids)))


def _rows_of_day(
    chat_id: str, day: DayItems | None, hidden: HiddenTurns, release: ChatItems | None, holding: Holding
) -> list[int]:
    """Rows of the day that are ranked: neither hidden nor of a turn that the release contains."""
    if not day:
        return []
    turn_ids = dict.fromkeys(turn_id for turn in day.turns for turn_id in turn.chunk.turn_ids)
    in_release = frozenset(holding(chat_id, turn_ids)) if release else frozenset()
    return [
        row
        for row, turn in enumerate(day.turns)
        if in_release.isdisjoint(turn.chunk.turn_ids) and not hidden.covers(turn.chunk)
    ]


def _order(release: ChatItems | None, rows: list[int], day: DayItems | None, hidden: HiddenTurns) -> Integers:
    """The rows that are ranked, in the order of time."""
    first = len(release) if release else 0
    kept = np.ones(first, bool)
    order = np.arange(first, dtype=np.int32)
    if release and hidden.before is not None:
        kept[: np.searchsorted(release.starts, hidden.before)] = False
    if release and hidden.turn_ids:
        kept[release.rows_of(hidden.turn_ids)] = False
    if day and rows:
        before = _positions(release, day, rows) if release else np.zeros(len(rows), np.int64)
        order = np.insert(order, before, np.array(rows, np.int32) + first)
        kept = np.insert(kept, before, np.ones(len(rows), bool))
    return order[kept].astype(np.int32)


def _positions(release: ChatItems, day: DayItems, rows: list[int]) -> NDArray[np.int64]:
    """The position in the release where each of these rows belongs; items of the same second are ordered as by the night."""
    times = day.starts[rows]
    low, high = (np.searchsorted(release.starts, times, side) for side in ("left", "right"))
    found = low.astype(np.int64)
    for at in np.flatnonzero(low < high):
        key = turn_order(day.turns[rows[at]].chunk.chunk_id)
        found[at] = bisect_left(release.chunk_ids, key, int(low[at]), int(high[at]), key=turn_order)
    return found


def _speakers(
    release: ChatItems | None, day: DayItems | None, order: Integers
) -> tuple[list[Speaker], NDArray[np.int32]]:
    """The speakers of ranked items (forgotten turns have none), and the speaker of each item."""
    numbers = {speaker: number for number, speaker in enumerate(release.speakers)} if release else {}
    turns = day.turns if day else ()
    said = [numbers.setdefault(turn.chunk.person, len(numbers)) for turn in turns]
    rows = np.array(said, np.int32)
    said_by = (rows if release is None else np.concatenate([release.said_by, rows]))[order]
    there = np.flatnonzero(np.bincount(said_by, minlength=len(numbers)))
    again = np.zeros(len(numbers), np.int32)
    again[there] = np.arange(len(there))
    named = list(numbers)
    return [named[number] for number in there], again[said_by]


def _features(
    release: ChatItems | None,
    day: DayItems | None,
    order: Integers,
    starts: NDArray[np.float64],
    said: tuple[list[Speaker], NDArray[np.int32]],
) -> Features:
    sides = (release.features if release else None, day)
    both_sides: list[Features | DayItems] = [side for side in sides if side is not None]

    def both(name: str) -> Array:
        return np.concatenate([getattr(side, name) for side in both_sides])[order].astype(np.float32)

    lengths = both("lengths")
    return Features(
        tokens=both("tokens"),
        lengths=lengths,
        asks=both("asks"),
        timed=both("timed"),
        neighbours=Neighbours(lengths, starts),
        sides=sides_of(*said, lengths),
    )
