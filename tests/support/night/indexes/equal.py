"""That the indexes of many nights hold, and answer, what a single night would have built of the same chunks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shared.config.kinds import place_of
from shared.ranking.tokeniser import question_terms
from shared.release.manifest import LEXICAL
from shared.release.parts import part_files
from shared.search.lexical import LexicalIndex
from shared.turns.chunk import Chunk
from shared.turns.chunking import chunks_of
from shared.turns.records import Turn
from shared.vectors.vector_files import VectorFile, chats_in
from tests.support.night.archives import every_chunk
from tests.support.night.builds import Nights
from tests.support.night.index_world import DIMENSIONS

VECTORS = place_of("sqlite")

DAY = 86_400.0
NOON = 1_700_000_000.0


def ordered(turns: Sequence[Turn]) -> list[Chunk]:
    """The chunks of these turns, as the night orders them."""
    by_time = sorted(turns, key=lambda turn: (turn.chat_id, turn.timestamp, turn.task_id, turn.role != "user"))
    return [chunk for turn in by_time for chunk in chunks_of(turn)]


@contextmanager
def anew(chunks: list[Chunk]) -> Iterator[Path]:
    """The indexes of these chunks as a first night builds them."""
    with tempfile.TemporaryDirectory() as folder:
        nights = Nights(Path(folder), "sqlite")
        nights.build(chunks)
        assert [len(part_files(nights.built / place)) for place in (LEXICAL, VECTORS)] == [1, 1]
        yield nights.built


def _items(index: LexicalIndex, chat: str) -> list[Any]:
    items = index.items(chat)
    assert items is not None
    own, near = items.features, items.features.neighbours
    arrays = (items.starts, own.tokens, own.lengths, own.asks, own.timed, near.total, near.continues)
    spoken = [items.speakers[number] for number in items.said_by]
    return [items.chat_id, items.chunk_ids, spoken, *(array.tolist() for array in arrays)]


def _where(index: LexicalIndex, chat: str, terms: list[str]) -> dict[str, list[tuple[int, int]]]:
    items = index.items(chat)
    assert items is not None
    found = index.postings(items, terms)
    assert list(found) == sorted(found)
    return {term: sorted(zip(at.tolist(), counts.tolist(), strict=True)) for term, (at, counts) in found.items()}


def same_words(one: LexicalIndex, other: LexicalIndex, chunks: list[Chunk]) -> None:
    """Bit for bit."""
    assert every_chunk(one) == every_chunk(other) == chunks
    assert one.chunks_per_chat() == other.chunks_per_chat()
    for chat in other.chunks_per_chat():
        own = [chunk for chunk in chunks if chunk.chat_id == chat]
        assert one.chunks_of(chat) == other.chunks_of(chat) == own
        assert (one.first_chunk(chat) is None) == (other.first_chunk(chat) is None)
        assert _items(one, chat) == _items(other, chat)
        terms = question_terms(re.findall(r"\w+", " ".join(chunk.text for chunk in own)))
        assert _where(one, chat, terms) == _where(other, chat, terms)
        assert one.questions_of(own, chat) == other.questions_of(own, chat)
        assert one.holding(chat, [c.turn_ids[0] for c in chunks]) == {c.turn_ids[0] for c in own}


def same_vectors(one: VectorFile, other: VectorFile, chunks: list[Chunk]) -> None:
    for chat in {chunk.chat_id for chunk in chunks}:
        mine, wanted = one.chat(chat), other.chat(chat)
        assert mine is not None and wanted is not None
        assert mine.rows.keys() == wanted.rows.keys() == {c.chunk_id for c in chunks if c.chat_id == chat}
        assert sorted(mine.ids) == sorted(wanted.ids)
        for chunk_id, row in mine.rows.items():
            assert np.array_equal(mine.vectors[row], wanted.vectors[wanted.rows[chunk_id]])
            assert mine.ids[row] == wanted.ids[wanted.rows[chunk_id]], "the same chunk stands for all that repeat it"


def same(built: Path, chunks: list[Chunk]) -> None:
    """What these files hold, and answer, is what one night would have made of the same chunks."""
    with anew(chunks) as other:
        with closing(LexicalIndex(built / LEXICAL)) as words, closing(LexicalIndex(other / LEXICAL)) as wanted:
            same_words(words, wanted, chunks)
        with (
            closing(VectorFile(built / VECTORS, DIMENSIONS)) as vectors,
            closing(VectorFile(other / VECTORS, DIMENSIONS)) as exact,
        ):
            same_vectors(vectors, exact, chunks)
    assert {one for part in part_files(built / VECTORS) for one in chats_in(part)} == {one.chat_id for one in chunks}
