"""Recall on the same day: what is kept of the day's turns, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.search.day_items import DayItems, day_turns, embedding_of
from shared.search.merge import MergedCache
from shared.search.types import HiddenTurns
from shared.turns.chunk import turn_order
from tests.support.day.day_recall import DIMENSIONS, UTC, holding, said, turn, vector_of


def test_what_was_merged_is_kept_until_something_changes() -> None:
    with holding(said("b1")) as side:
        index, cache, day, nothing = side.sources.lexical, side.sources.merged, side.day(said("d2")), HiddenTurns()
        assert index
        release = index.items("9912")

        def get(day: DayItems, hidden: HiddenTurns) -> Any:
            return cache.get("9912", release, day, hidden, index.holding)

        def fill(cache: MergedCache, chat: str) -> None:
            today = side.day([turn("t", "user", "boiler", 0, chat)], chat=chat)
            cache.get(chat, None, today, nothing, index.holding)

        first = get(day, nothing)
        assert get(day, nothing) is first
        assert get(day, HiddenTurns(frozenset({"b1:user"}))) is not first
        assert get(side.day(said("d2")), nothing) is not first
        assert len(cache._cache) == 1
        for number in range(100):
            fill(cache, str(number))
        assert list(cache._cache) == [str(number) for number in range(36, 100)]
        small = MergedCache(bytes_=1)
        fill(small, "4")
        fill(small, "5")
        assert list(small._cache) == ["5"]


def test_a_new_turn_is_tokenised_alone() -> None:
    class Counting:
        def __init__(self, real: Any) -> None:
            self.real, self.texts = real, list[str]()

        def postings(self, texts: Sequence[str]) -> Any:
            self.texts += texts
            return self.real.postings(texts)

    with holding([]) as side:
        tokeniser: Any = Counting(side.tokeniser)
        entries = [one for it in said() for one in day_turns(it, UTC)]
        first = DayItems.of("9912", entries[:-1], tokeniser)
        tokeniser.texts.clear()
        second = DayItems.of("9912", entries, tokeniser, first)
        assert tokeniser.texts == [entries[-1].indexed]
        anew = DayItems.of("9912", entries, side.tokeniser)
        assert second.texts == anew.texts


def test_vectors_of_a_turn_are_kept_as_bytes() -> None:
    long = turn("l", "user", " ".join(f"Sentence number {n} about the garage." for n in range(60)), 0.0)
    chunks = day_turns(long, UTC)
    vectors = [None if n == 1 else vector_of(n) for n in range(len(chunks))]
    kept = embedding_of(vectors)
    assert kept
    back = day_turns(long, UTC, kept, DIMENSIONS)
    assert [one.vector is None for one in back] == [vector is None for vector in vectors]
    for one, vector in zip(back, vectors, strict=True):
        assert one.vector is None or (vector is not None and one.vector.tolist() == vector.tolist())
    assert [one.vector for one in day_turns(long, UTC, kept, DIMENSIONS + 1)] == [None] * len(chunks)
    assert [one.vector for one in day_turns(long, UTC, kept[:-4], DIMENSIONS)] == [None] * len(chunks)
    assert embedding_of([None, None]) is None
    assert day_turns(turn("e", "user", "\x00", 0.0), UTC) == []


def test_chunks_of_one_second_are_ordered_as_at_night() -> None:
    names = ["t1:user#1", "t1:user#2", "t1:user#10", "t1:asst#1", "t2:user#1"]
    assert sorted({*names}, key=turn_order) == names
