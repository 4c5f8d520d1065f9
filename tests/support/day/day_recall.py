"""A release and a day of one talk, searched together in this process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from shared.embedding.centring import centred
from shared.ranking.tokeniser import Tokeniser
from shared.search import lexical
from shared.search.day_items import ROUNDED, DayItems, day_turns
from shared.search.lexical import LexicalIndex
from shared.search.lookup import Sources, look_up
from shared.search.types import Hit, Query, Recalled
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import Turn
from shared.vectors.base import NullBackend

UTC = ZoneInfo("UTC")
NOON = 1_778_673_600.0  # 13 May 2026
HOUR = 3600.0
DIMENSIONS = 8
Vectors = Mapping[str, Any]
TALK = [
    ("b1", "user", "The boiler broke again this morning.", -30.0),
    ("b1", "asst", "Which error does the boiler show?", -29.99),
    ("c1", "user", "Our cat Mishka sleeps on the piano all day.", -20.0),
    ("h1", "user", "We rented a house near the harbour of Ostend for July.", -10.0),
    ("h1", "asst", "Nice.", -9.99),
    ("d1", "user", "What is the code of the garage door?", -3.0),
    ("d1", "asst", "4711.", -2.99),
    ("d2", "user", "The plumber comes on Friday about the boiler.", -2.0),
    ("d3", "user", "Mishka was at the vet today: her left paw is swollen.", -1.0),
]


def turn(task: str, role: str, text: str, hours: float, chat: str = "9912", name: str | None = None) -> Turn:
    return Turn(task, role, chat, text, NOON + hours * HOUR, name)


def said(*tasks: str) -> list[Turn]:
    """What these tasks said in TALK; all of it without any."""
    return [turn(*row) for row in TALK if not tasks or row[0] in tasks]


class Index:
    """A vector index of a test: vectors by chunk id, and of each question the same one."""

    why_not = None

    def __init__(self, vectors: Vectors, asked: Any) -> None:
        self.vectors, self.asked, self.embedded = vectors, asked, 0

    def is_available(self) -> bool:
        return True

    def vector(self, query: str) -> Any:
        self.embedded += 1
        return self.asked

    def centre(self, chat_id: str) -> Any:
        return np.zeros_like(self.asked)  # these vectors are compared as they are

    def similarities(self, query: str, chat_id: str, chunk_ids: Sequence[str]) -> Any:
        none = np.full(len(self.asked), np.nan, np.float32)
        asked = centred(self.asked, np.zeros_like(none))
        stored = [centred(self.vectors.get(name, none), np.zeros_like(none)).astype(ROUNDED) for name in chunk_ids]
        return np.array([one.astype(np.float32) @ asked for one in stored], np.float32)


@dataclass
class Side:
    """The `lexical/` of some turns, to be asked; and the day's items of others."""

    sources: Sources
    path: Path

    def day(self, turns: Sequence[Turn], vectors: Vectors | None = None, chat: str = "9912") -> DayItems:
        given, items = vectors or {}, (one for said in turns for one in day_turns(said, UTC))
        entries = [replace(one, vector=given.get(one.chunk.chunk_id)) for one in items]
        return DayItems.of(chat, entries, Tokeniser())

    def ask(
        self, query: str, day: DayItems | None = None, k: int = 50, embed_query: Any = None, **more: Any
    ) -> Recalled:
        sources = replace(self.sources, embed_query=embed_query)
        return look_up(sources, Query("9912", query, k, now=NOON, day=day, **more))

    def hits(self, query: str, day: DayItems | None = None, **more: Any) -> list[Hit]:
        return self.ask(query, day, **more).hits


@contextmanager
def holding(turns: Sequence[Turn], index: Any = None) -> Iterator[Side]:
    """A release of these turns, built as a night builds it."""
    ordered = sorted(turns, key=lambda one: (one.chat_id, one.timestamp, one.task_id, one.role != "user"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
        path = Path(folder) / "lexical"
        lexical.build(path, 1, ((chunk, indexed_text(chunk, UTC)) for one in ordered for chunk in chunks_of(one)))
        opened = LexicalIndex(path)
        sources = Sources(opened, index or NullBackend("none here"), pool, UTC)
        yield Side(sources, path)
        opened.close()


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.chunk_id for hit in hits]


def same(found: Recalled, expected: Recalled) -> None:
    """The same hits with the same scores, each question and each repetition with them; equal ones in any order, any repetition first."""

    def of(hit: Hit) -> tuple[str, int]:
        return min(*hit.chunk.turn_ids, *hit.also, "~"), hit.chunk.passage

    told, wanted = ({of(hit): hit for hit in one.hits} for one in (found, expected))
    assert told.keys() == wanted.keys()
    assert [hit.rank for hit in found.hits] == pytest.approx([hit.rank for hit in expected.hits], abs=1e-5)
    for name, hit in told.items():
        other = wanted[name]
        assert {*hit.chunk.turn_ids, *hit.also} == {*other.chunk.turn_ids, *other.also}
        if hit.chunk.chunk_id == other.chunk.chunk_id:
            assert (hit.chunk, hit.question) == (other.chunk, other.question)
            assert hit.scores == pytest.approx(other.scores, abs=1e-5)
    assert found.degraded == expected.degraded


QUESTIONS = [
    "What about the boiler last week?",
    "garage code",
    "When was Noor at the harbour?",
    "What did I say?",
    "zebra",
]


def vector_of(seed: int) -> Any:
    """A unit vector, rounded as an index stores it."""
    drawn = np.random.default_rng(seed).normal(size=DIMENSIONS)
    return (drawn / np.linalg.norm(drawn)).astype("<f2").astype(np.float32)


def away(_: str) -> Any:
    raise RuntimeError("Ollama is asleep")
