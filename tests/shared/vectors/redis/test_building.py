"""The night with Redis: an index is built, proven, followed and swept; broken connections, and an index that is not as it was given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.release.manifest import REDIS
from shared.vectors.base import Corpus
from shared.vectors.on_server import read_served
from shared.vectors.redis import index as redis_search
from shared.vectors.redis.index import RedisBuilder
from shared.vectors.redis.server import tag_of
from shared.wire import keys
from tests.servers.redisearch import RediSearch, redis_settings
from tests.support.machine import slowness
from tests.support.night.indexes.on_redis import build, corpus_of, opened, vector_of


def test_a_release_is_built_proven_followed_searched_and_swept(tmp_path: Path) -> None:
    with redis_settings() as told:
        settings = load_settings(**told)
        client: Redis = Redis.from_url(told["redis_stack_url"], protocol=2, decode_responses=True)
        RedisBuilder(settings, 1).refuse_unless_usable()
        first, second = (build(settings, tmp_path, corpus_of(one=60, other=5), run) for run in (1, 2))
        names = [read_served(place).name for place in (first, second)]
        builder = RedisBuilder(settings, 2)
        checked = builder.check(second, tmp_path / "scratch", corpus_of(one=60, other=5))
        assert (checked.vectors, checked.unreached) == ({"one": 60, "other": 5}, 0)
        assert client.hget(f"{keys.vectors(names[1])}3", "said_at") == "1700000003.0"
        for place in (first, second, second):  # asked again, it changes nothing
            builder.follow(place)
        found = opened(settings, first)
        assert found.is_available(), found.why_not
        assert found.search("one/7", "one", 2)[0].chunk_id == "one/7"
        assert found.search("one/7", "One", 5) == []
        assert builder.sweep(names) == []
        assert builder.sweep(names[1:]) == [names[0]]
        assert list(client.scan_iter(match=f"{keys.vectors(names[0])}*")) == []
        assert len(list(client.scan_iter(match=f"{keys.vectors(names[1])}*"))) == 65
        with pytest.raises(IndexServerUnavailable, match=names[0]):
            found.search("one/7", "one", 2)
        found.close()
        client.close()


def test_an_index_of_nothing_is_one_too(settings: Settings, tmp_path: Path) -> None:
    place = build(settings, tmp_path, Corpus({}))
    builder = RedisBuilder(settings, 1)
    assert builder.check(place, tmp_path / "scratch", Corpus({})).vectors == {}
    builder.follow(place)
    found = opened(settings, place)
    assert found.is_available(), found.why_not
    assert found.search("anything", "1", 5) == []
    found.close()


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("HSET", "drop"),
        ("FT.CREATE", "drop"),
        ("FT.INFO", "-LOADING Redis is loading the dataset in memory"),
        ("FT.INFO", "hang"),
        ("FT.SEARCH", "drop"),
        ("HMGET", "drop"),
        ("FT.ALIASUPDATE", "drop"),
    ],
)
def test_a_broken_connection_does_not_end_the_night(
    stand_in: RediSearch, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, fault: str
) -> None:
    if fault == "hang":
        monkeypatch.setattr(redis_search, "NIGHT_SECONDS", 0.3 * slowness())
    stand_in.faults = {command: [fault]}
    corpus = corpus_of(one=3)
    place = build(settings, tmp_path, corpus)
    builder = RedisBuilder(settings, 1)
    assert builder.check(place, tmp_path / "scratch", corpus).vectors == {"one": 3}
    builder.follow(place)
    assert stand_in.faults == {command: []}
    assert len(stand_in.sent(command)) > 1


@pytest.mark.parametrize(
    ("fault", "told", "attempts"),
    [
        ("-OOM command not allowed when used memory > 'maxmemory'.", "OutOfMemoryError", 1),
        ("-NOAUTH Authentication required.", "AuthenticationError", 1),
        ("-NOPERM this user has no permissions", "NoPermissionError", 1),
        ("drop", "ConnectionError", 2),
    ],
)
def test_a_server_that_does_not_take_it_is_named(
    stand_in: RediSearch,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    told: str,
    attempts: int,
) -> None:
    monkeypatch.setattr(redis_search, "ATTEMPTS", 2)
    stand_in.all_faults = fault
    with pytest.raises(IndexServerUnavailable, match=f"REDIS_STACK_URL.*{told}"):
        RedisBuilder(settings, 1).build(tmp_path / REDIS, corpus_of(one=3))
    assert not (tmp_path / REDIS).exists()
    assert len(stand_in.sent()) == attempts


def test_it_waits_until_redis_has_indexed_everything(stand_in: RediSearch, settings: Settings, tmp_path: Path) -> None:
    place = build(settings, tmp_path, corpus_of(one=9))
    stand_in.busy, before = 6, len(stand_in.sent("FT.INFO"))
    assert RedisBuilder(settings, 1).check(place, tmp_path / "scratch", corpus_of(one=9)).vectors == {"one": 9}
    assert len(stand_in.sent("FT.INFO")) - before > 6


def _short_vector(client: Redis, start: str) -> None:
    client.hset(f"{start}2", "vector", b"1234")


DAMAGE: dict[str, tuple[Callable[[Redis, str], object], str]] = {
    "a row that is gone": (lambda client, start: client.delete(f"{start}2"), "4 of 5 vectors"),
    "one too many": (lambda client, start: client.copy(f"{start}2", f"{start}99"), "6 of 5 vectors"),
    "a vector of another size": (_short_vector, "1 rows that it could not index"),
    "another vector": (
        lambda client, start: client.hset(f"{start}2", "vector", vector_of("x").tobytes()),
        "another row",
    ),
    "another chunk": (lambda client, start: client.hset(f"{start}2", "chunk_id", "x"), "another row"),
    "another chat's": (lambda client, start: client.hset(f"{start}2", "chat", tag_of("other")), "another row"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_index_that_is_not_as_it_was_given_is_refused(
    stand_in: RediSearch, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(redis_search, "INDEXING_SECONDS", 0.1)
    place = build(settings, tmp_path, corpus_of(one=3, other=2))
    change, why = DAMAGE[damage]
    client: Redis = Redis.from_url(stand_in.url)
    change(client, keys.vectors(read_served(place).name))
    client.close()
    with pytest.raises(ReleaseRefused, match=why):
        RedisBuilder(settings, 1).check(place, tmp_path / "scratch", corpus_of(one=3, other=2))


def test_an_index_that_does_not_tell_what_its_hashes_hold_is_refused(
    stand_in: RediSearch, settings: Settings, tmp_path: Path
) -> None:
    corpus = corpus_of(one=3)
    place = build(settings, tmp_path, corpus)
    index = stand_in.find(read_served(place).name)
    index.vectors["vector"] = -index.vectors["vector"]
    with pytest.raises(ReleaseRefused, match="does not find the vector of chunk one/0"):
        RedisBuilder(settings, 1).check(place, tmp_path / "scratch", corpus)
    index.tags["chat", tag_of("one")].pop()
    with pytest.raises(ReleaseRefused, match="2 of 3 vectors of a chat"):
        RedisBuilder(settings, 1).check(place, tmp_path / "scratch", corpus)


def test_what_a_later_run_may_be_building_is_left_alone(
    stand_in: RediSearch, settings: Settings, tmp_path: Path
) -> None:
    building = read_served(build(settings, tmp_path, corpus_of(one=2), 9)).name
    stand_in.redis.hset(f"{keys.vectors('hmem-9-00000000')}4", "chat", "its index is made in a moment")
    assert RedisBuilder(settings, 2).sweep([], newest=8) == []
    assert RedisBuilder(settings, 2).sweep([], newest=9) == sorted([building, "hmem-9-00000000"])


def test_a_sweep_takes_what_dead_attempts_left_and_nothing_else(
    stand_in: RediSearch, settings: Settings, tmp_path: Path
) -> None:
    place = build(settings, tmp_path, corpus_of(one=3))
    kept = read_served(place).name
    stand_in.faults = {"HSET": ["ok"] * 2 + ["-OOM no"]}
    with pytest.raises(IndexServerUnavailable):
        RedisBuilder(settings, 2).build(tmp_path / REDIS, corpus_of(one=3))
    (died,) = set(stand_in.indexes) - {kept}
    stand_in.redis.hset(f"{keys.vectors('hmem-9-00000000')}4", "chat", "left behind by an index that is gone")
    theirs = load_settings(redis_stack_url=stand_in.url, index_name="hmem-2")
    others = read_served(build(theirs, tmp_path / "others", corpus_of(one=2))).name
    stand_in.redis.set("hcli:mem:outbox", "something else")
    assert RedisBuilder(settings, 3).sweep([kept]) == sorted([died, "hmem-9-00000000"])
    assert set(stand_in.indexes) == {kept, others}
    left = {key.decode().rpartition(":")[0] for key in stand_in.redis.scan_iter()}
    assert left == {keys.vectors(kept)[:-1], keys.vectors(others)[:-1], "hcli:mem"}
