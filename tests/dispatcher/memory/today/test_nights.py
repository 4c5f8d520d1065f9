"""Recall on the same day, with the releases of real nights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from shared.embedding.known_models import MINILM, MULTILINGUAL
from shared.embedding.local.embedder import LocalEmbedder
from shared.errors import ReleaseRefused
from shared.search.day_items import DayTurn, day_turns
from shared.search.recall import DayRecall, OpenRelease
from shared.search.types import Query
from shared.turns.chunking import embedded_text
from tests.support.day.day_recall import NOON, QUESTIONS, UTC, ids, said, same
from tests.support.world import World


@contextmanager
def opened(world: World) -> Iterator[OpenRelease]:
    release = OpenRelease(world.settings(), (world.memory_dir / "current").resolve())
    release.open_vectors()
    yield release
    release.close()


@pytest.mark.slow
def test_tonight_changes_nothing_in_what_is_recalled_today(world: World) -> None:
    embedder, zone = LocalEmbedder(MULTILINGUAL), world.settings().timezone
    old, new = said("b1", "c1", "h1"), said("d1", "d2", "d3")
    for one in old:
        world.redis.set(f"hcli:memory:{one.turn_id}", one.to_json())
    world.night()
    entries = [entry for one in new for entry in day_turns(one, zone)]
    vectors = embedder.embed_documents([embedded_text(entry.chunk) for entry in entries]).vectors
    maker = DayRecall(world.settings())
    day = maker.items("9912", [replace(one, vector=vector) for one, vector in zip(entries, vectors, strict=True)])
    queries = [*QUESTIONS, "Which animal is ill?", "holiday by the sea", "repair of the heating"]
    with opened(world) as release:
        assert release.holds("9912", [one.turn_id for one in [*old, *new]]) == {one.turn_id for one in old}
        assert release.holds("77", ["b1:user"]) == set()
        today = [release.recall(Query("9912", query, 50, now=NOON, day=day)) for query in queries]
    for one in new:
        world.redis.set(f"hcli:memory:{one.turn_id}", one.to_json())
    world.night()
    with opened(world) as release:
        for found, query in zip(today, queries, strict=True):
            same(found, release.recall(Query("9912", query, 50, now=NOON)))
            same(found, release.recall(Query("9912", query, 50, now=NOON, day=day)))
            assert found.hits[0].meaning is not None
    maker.close()


def test_before_the_first_night_the_day_is_recalled_alone(world: World) -> None:
    embedder, maker = LocalEmbedder(MINILM), DayRecall(world.settings())
    entries = [one for it in said() for one in day_turns(it, UTC)]
    vectors = embedder.embed_documents([one.indexed for one in entries]).vectors
    day = maker.items("9912", [DayTurn(one.chunk, one.indexed, row) for one, row in zip(entries, vectors, strict=True)])
    found = maker.recall(Query("9912", "Which animal is ill?", 3, 5.0, NOON, day=day), embedder.embed_query)
    assert "d3:user#1" in ids(found.hits)[:2]
    assert found.degraded == []
    words = maker.recall(Query("9912", "plumber", 3, day=day))
    assert ids(words.hits)[0] == "d2:user#1"
    assert words.degraded == ["no vector search: there is no release yet, and no embedder by day"]
    assert maker.recall(Query("9912", "plumber", 3, day=maker.items("9912", []))).hits == []
    with pytest.raises(ValueError, match="day's turns of chat"):
        maker.recall(Query("77", "plumber", 3, day=day))
    maker.close()


def test_a_closed_release_does_not_say_that_it_holds_nothing(light: World) -> None:
    light.say("t1", "the boiler broke")
    light.night()
    with opened(light) as release:
        assert release.holds("9912", {"t1:user", "t2:user"}) == {"t1:user"}
    with pytest.raises(ReleaseRefused, match="cannot be read"):
        release.holds("9912", {"t1:user"})
