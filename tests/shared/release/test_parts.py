"""Indexes in parts: when small ones become a large one, and that a release of many nights' parts is the one that a single night would have built."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.config.kinds import place_of
from shared.release.manifest import LEXICAL
from shared.release.parts import FANOUT, absorbed, level, part_files
from shared.turns.chunk import Chunk
from shared.turns.records import Turn
from shared.vectors.vector_files import chats_in, read_part
from tests.support.night.archives import chunks_in
from tests.support.night.builds import Nights
from tests.support.night.index_world import DIMENSIONS
from tests.support.night.indexes.equal import NOON, ordered, same

VECTORS = place_of("sqlite")


@dataclass
class Kept:
    """The parts of an index over many nights, by the policy alone."""

    rows: dict[str, int] = field(default_factory=dict)
    rewritten: dict[str, list[int]] = field(
        default_factory=dict
    )  # part -> level of each part that its oldest row was in
    written: int = 0

    def night(self, number: int, new: int) -> set[str]:
        gone = absorbed(self.rows, new)
        size = new + sum(self.rows.pop(name) for name in gone)
        past = max((self.rewritten.pop(name) for name in gone), key=len, default=[])
        if size:
            self.rows[str(number)] = size
            self.rewritten[str(number)] = [*past, level(size)]
            self.written += size
        return gone


nights_of_rows = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 60_000), st.just(0)), min_size=1, max_size=400)


@settings(max_examples=60)
@given(nights_of_rows)
def test_there_are_few_parts_and_no_row_is_written_often(nights: list[int]) -> None:
    kept = Kept()
    for number, new in enumerate(nights):
        before = dict(kept.rows)
        gone = kept.night(number, new)
        assert new or not gone, "nothing is written anew for nothing"
        assert not gone or len(gone) >= FANOUT - 1
        assert absorbed(dict(reversed(before.items())), new) == gone, "in whatever order they are told"
        for lowest in range(level(sum(nights)) + 1):
            assert sum(level(rows) == lowest for rows in kept.rows.values()) < FANOUT
    assert sum(kept.rows.values()) == sum(nights)
    for past in kept.rewritten.values():
        assert past == sorted(past), "a part never falls to a lower level"
        for one in range(1, level(sum(nights)) + 1):
            assert past.count(one) < FANOUT, "each rewriting within a level adds what is as large as its smallest part"


# --------------------------------------------------------------------------------------------------- nights, of made-up talk


TEXTS = (
    "the boiler code is 4711", "the heron came to the pond", "OK", "when does the train leave?", "at nine o'clock on Monday",
    "the engineer mends the boiler tomorrow", "Größe 42, naïve café", "no boiler, no heron, no pond", "a boiler. " * 250,
    "heron and train. " * 120 + "OK",
)  # fmt: skip
NAMES = (None, "Anna", "Boris", "the assistant")

#: One thing that happens: which turn (chat, task, role), what it says from now on (None: it is forgotten), when, and who said it.
happening = st.tuples(
    st.sampled_from("12"), st.integers(0, 12), st.sampled_from(("user", "asst")),
    st.none() | st.sampled_from(TEXTS), st.integers(0, 6), st.sampled_from(NAMES),
)  # fmt: skip
lives = st.lists(st.lists(happening, min_size=0, max_size=5), min_size=2, max_size=12)


def lived(life: Sequence[Sequence[tuple[Any, ...]]]) -> Iterator[list[Chunk]]:
    """After each night all chunks that there are."""
    turns: dict[tuple[str, str, str], Turn] = {}
    for night in life:
        for chat, number, role, text, hour, name in night:
            turn = Turn(f"t{number}c{chat}", role, chat, text or "", NOON + 3600.0 * hour, name)
            turns[chat, turn.task_id, role] = turn
        yield ordered([turn for turn in turns.values() if turn.content])


@pytest.mark.slow
@settings(max_examples=12)
@given(lives)
def test_whatever_was_said_changed_or_forgotten_in_whichever_night(life: list[list[tuple[Any, ...]]]) -> None:
    """Late turns, turns of the same instant, of another speaker, repeated and long ones: they are all drawn here."""
    with tempfile.TemporaryDirectory() as folder:
        nights = Nights(Path(folder), "sqlite")
        for chunks in lived(life):
            nights.published(chunks)
        same(nights.built, chunks)
        _hold_nothing_else(nights.built, chunks)


def _hold_nothing_else(built: Path, chunks: list[Chunk]) -> None:
    """Each chunk is in one part of each index, all passages of a turn in the same, and no part holds another."""
    wanted = sorted((chunk.chat_id, chunk.chunk_id) for chunk in chunks)
    texts = [chunks_in(path) for path in part_files(built / LEXICAL)]
    assert sorted((chunk.chat_id, chunk.chunk_id) for part in texts for chunk in part) == wanted
    turns = [{chunk.turn_ids[0] for chunk in part} for part in texts]
    assert sum(map(len, turns)) == len(set[str]().union(*turns))
    parts = part_files(built / VECTORS)
    held = [(chat, one) for path in parts for chat, ids, _ in read_part(path, DIMENSIONS) for one in ids]
    held += [(chat, one) for path in parts for chat, (_, again) in chats_in(path).items() for one in again]
    assert sorted(held) == wanted
