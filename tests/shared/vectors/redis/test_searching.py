"""The day with Redis: similarities, a server that fails, and an index that is gone or another."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from redis import Redis

from shared.config.settings import Settings
from shared.errors import IndexServerUnavailable
from shared.vectors.on_server import Served, read_served, write_served
from shared.vectors.redis import index as redis_index
from shared.vectors.redis import sets
from shared.wire import keys
from tests.servers.redis8 import FaultyRedis
from tests.support.machine import slowness
from tests.support.night.index_world import DIMENSIONS, vector_of
from tests.support.night.indexes.on_redis import build, corpus_of, opened, sealed


def test_of_a_very_long_chat_the_nearest_of_each_part_are_told(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "MOST_TOLD", 544)
    corpus = corpus_of(one=2 * sets.PART_ROWS + 128)
    ids, vectors = corpus.chats["one"]
    found = opened(settings, build(settings, tmp_path, corpus))
    told, exact = found.similarities("a question", "one", ids), vectors @ vector_of("a question")
    assert np.count_nonzero(~np.isnan(told)) == 544 == len(ids) // 4
    for start in range(0, len(ids), sets.PART_ROWS):
        part = slice(start, start + sets.PART_ROWS)
        nearest = np.argsort(-exact[part])[: len(ids[part]) // 4]
        np.testing.assert_allclose(told[part][nearest], exact[part][nearest], atol=1e-5)
    found.close()


@pytest.mark.parametrize(("command", "fault"), [("HMGET", "drop"), ("VSIM", "hang")])
def test_the_first_failure_closes_the_index_and_it_can_be_opened_again(
    proxy: FaultyRedis, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, command: str
) -> None:
    if fault == "hang":
        monkeypatch.setattr(redis_index, "DAY_SECONDS", slowness())
    found = opened(settings, build(settings, tmp_path, corpus_of(one=9)))
    proxy.faults = {command: [fault]}
    with pytest.raises(IndexServerUnavailable, match="the redis server is not available"):
        found.similarities("note 3 of one", "one", ["one/3"])
    asked = len(proxy.sent(command))
    assert asked == 1, "by day nothing is asked twice"
    assert not found.is_available()
    assert np.isnan(found.similarities("note 3 of one", "one", ["one/3"])).all()
    assert len(proxy.sent(command)) == asked
    proxy.all_faults = fault
    found.open()
    assert "the redis server is not available" in cast(str, found.why_not)
    proxy.all_faults = None
    found.open()
    assert found.similarities("note 3 of one", "one", ["one/3"])[0] > 0.99
    found.close()


def test_an_index_that_is_gone_or_another_is_refused(settings: Settings, tmp_path: Path) -> None:
    place = build(settings, tmp_path, corpus_of(one=4))
    name = read_served(place).name
    for served, why in (
        (Served(name, 5, DIMENSIONS), "has with other totals"),
        (Served(name, 4, 16), "has with other totals"),
        (Served("hmem-1-00000000", 4, DIMENSIONS), "does not have"),
    ):
        write_served(place, served)
        found = opened(settings, sealed(place))
        assert f"release 1 has its vectors in Redis as {served.name}, which the server {why}" in cast(
            str, found.why_not
        )
        found.close()


def test_a_vector_of_another_chat_never_comes_out(looking: Redis, settings: Settings, tmp_path: Path) -> None:
    """Whatever the hash says: the key of a part is made of the chat that asks."""
    place = build(settings, tmp_path, corpus_of(one=4, other=4))
    found = opened(settings, place)
    release = keys.vector_release(read_served(place).name)
    looking.hset(release, "chat:stranger", cast(str, looking.hget(release, "chat:other")))
    with pytest.raises(IndexServerUnavailable, match="are missing"):
        found.similarities("note 2 of other", "stranger", ["other/2"])
    found.open()
    told = found.similarities(
        "note 2 of other", "one", [f"{chat}/{row}" for chat in ("one", "other") for row in range(4)]
    )
    assert np.isnan(told).tolist() == [False] * 4 + [True] * 4
    found.close()
