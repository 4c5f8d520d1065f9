"""Recall on the same day where the release, the vectors or the embedder are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from shared.release.parts import part_files
from shared.search.lexical import LexicalIndex
from shared.search.lookup import look_up
from shared.search.types import Query
from tests.support.day.day_recall import NOON, Index, away, holding, ids, said, vector_of


def test_a_release_that_cannot_be_read_leaves_the_day() -> None:
    with holding(said("b1")) as side:
        day = side.day(said("d2"))
        (part,) = part_files(side.path)
        whole = part.read_bytes()
        part.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
        broken = LexicalIndex(side.path)
        sources = replace(side.sources, lexical=broken)
        found = look_up(sources, Query("9912", "boiler", 5, now=NOON, day=day))
        assert ids(found.hits) == ["d2:user#1"]
        assert [reason.partition(":")[0] for reason in found.degraded] == ["no recalled text", "no vector search"]
        broken.close()


def test_the_day_is_searched_by_meaning_where_the_release_is_not() -> None:
    vectors = {"d2:user#1": vector_of(1), "d3:user#1": vector_of(2)}
    with holding(said("b1", "c1")) as side:
        day = side.day(said("d2", "d3"), vectors)
        found = side.ask("feline", day, embed_query=lambda _: vectors["d3:user#1"])
        assert found.hits[0].chunk.chunk_id == "d3:user#1"
        assert found.hits[0].scores["cosine"] == pytest.approx(1, abs=1e-3)
        assert found.degraded == ["no vector search: none here"]


@pytest.mark.parametrize(
    ("vector_of", "vectors", "said_so"),
    [
        (None, True, "none here"),
        (away, True, "Ollama is asleep"),
        (lambda _: None, True, "the day's embedder is not available"),
        (lambda _: vector_of(1), False, "today's turns have no vectors yet"),
        (lambda _: np.ones(3, np.float32), True, None),
    ],
)
def test_what_is_missing_is_named_and_words_remain(
    vector_of: Callable[[str], Any] | None, vectors: bool, said_so: str | None
) -> None:
    with holding([]) as side:
        day = side.day(said("d2", "d3"), {"d2:user#1": globals()["vector_of"](1)} if vectors else None)
        found = side.ask("boiler", day, embed_query=vector_of)
        assert ids(found.hits)[0] == "d2:user#1"
        assert found.hits[0].meaning is None
        assert found.degraded == ([f"no vector search: {said_so}"] if said_so else [])


def test_the_question_is_embedded_once_for_both() -> None:
    vectors = {"b1:user#1": vector_of(1), "d2:user#1": vector_of(2)}
    index = Index(vectors, vector_of(1))
    with holding(said("b1"), index) as side:
        found = side.ask("zebra", side.day(said("d2"), vectors), embed_query=away)
        assert (found.degraded, index.embedded) == ([], 1)
        assert found.hits[0].chunk.chunk_id == "b1:user#1"
