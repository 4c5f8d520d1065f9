"""The day with Redis: similarities, a server that fails, and an index that is gone or another."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from redis import Redis

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.release.manifest import Manifest, seal
from shared.vectors.on_server import Served, read_served, write_served
from shared.vectors.redis import index as redis_search
from shared.vectors.redis.server import tag_of
from shared.vectors.searching import MOST_COMPARED
from shared.wire import keys
from tests.servers.redisearch import RediSearch
from tests.support.machine import slowness
from tests.support.night.indexes.on_redis import DIMENSIONS, IDENTITY, build, corpus_of, opened, vector_of


def test_similarities_are_exact_for_the_nearest(settings: Settings, tmp_path: Path) -> None:
    corpus = corpus_of(one=MOST_COMPARED + 200)
    found = opened(settings, build(settings, tmp_path, corpus))
    ids, vectors = corpus.chats["one"]
    exact = vectors @ vector_of("a question")
    told = found.similarities("a question", "one", ids)
    nearest = np.argsort(-exact)[:MOST_COMPARED]
    np.testing.assert_allclose(told[nearest], exact[nearest], atol=1e-5)
    assert np.isnan(told).sum() == 200
    found.close()


@pytest.mark.parametrize(
    "fault", ["drop", "hang", "-LOADING Redis is loading", "-NOAUTH Authentication required.", "-OOM no"]
)
def test_the_first_failure_closes_the_index_and_it_can_be_opened_again(
    stand_in: RediSearch, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(redis_search, "DAY_SECONDS", 0.3 * slowness())
    found = opened(settings, build(settings, tmp_path, corpus_of(one=9)))
    stand_in.faults = {"FT.SEARCH": [fault]}
    with pytest.raises(IndexServerUnavailable, match="the redis server is not available"):
        found.search("one/3", "one", 1)
    asked = len(stand_in.sent("FT.SEARCH"))
    assert asked == 1, "by day nothing is asked twice"
    assert not found.is_available()
    assert found.search("one/3", "one", 1) == []
    assert len(stand_in.sent("FT.SEARCH")) == asked
    stand_in.all_faults = fault
    found.open()
    assert "the redis server is not available" in cast(str, found.why_not)
    stand_in.all_faults = None
    found.open()
    assert [match.chunk_id for match in found.search("one/3", "one", 1)] == ["one/3"]
    found.close()


def test_an_index_that_is_gone_or_another_is_refused(stand_in: RediSearch, settings: Settings, tmp_path: Path) -> None:
    place = build(settings, tmp_path, corpus_of(one=4))
    name = read_served(place).name
    for served, why in (
        (Served(name, 5, DIMENSIONS), "4 of 5 vectors"),
        (Served(name, 4, 16), "dim 8, not 16"),
        (Served("hmem-1-00000000", 4, DIMENSIONS), "no such index"),
    ):
        write_served(place, served)
        seal(place.parent, Manifest(1, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, 0, 0, 0, 0, {}))
        found = opened(settings, place)
        assert f"release 1 has its vectors in the Redis index {served.name}, where the server has {why}" in cast(
            str, found.why_not
        )
        found.close()


def test_a_row_of_another_chat_never_comes_out(stand_in: RediSearch, settings: Settings, tmp_path: Path) -> None:
    place = build(settings, tmp_path, corpus_of(one=4, other=4))
    found = opened(settings, place)
    client: Redis = Redis.from_url(stand_in.url)
    client.hset(f"{keys.vectors(read_served(place).name)}6", "chat", tag_of("one"))
    with pytest.raises(ReleaseRefused, match="a row of another chat"):
        found.search("other/2", "one", 5)
    client.close()
    found.close()
