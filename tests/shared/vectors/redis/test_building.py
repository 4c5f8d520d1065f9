"""The night with Redis: what is sent, what releases share, what is removed with one, and what a check finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from shared.config.kinds import place_of
from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, ReleaseRefused
from shared.vectors.base import Corpus
from shared.vectors.on_server import read_served
from shared.vectors.redis import index as redis_index
from shared.vectors.redis import sets
from shared.vectors.redis.index import RedisBuilder
from shared.wire import keys
from shared.wire.client import NIGHT
from tests.servers.redis8 import FaultyRedis
from tests.support.machine import slowness
from tests.support.night.index_world import vector_of
from tests.support.night.indexes.on_redis import build, corpus_of, opened

REDIS = place_of("redis")


def checked(settings: Settings, place: Path, corpus: Corpus) -> dict[str, int]:
    return RedisBuilder(settings, 1).check(place, place.parent / "scratch", corpus).vectors


def names_of(*places: Path) -> list[str]:
    return [read_served(place).name for place in places]


def parts(looking: Redis, chat: str | None = None) -> list[str]:
    """The keys of all vector sets, or of a chat's."""
    return sorted(looking.scan_iter(match=sets.Part("*", 0).key(chat) if chat else "hcli:mem:vectors:part:*"))


def test_only_what_is_new_is_sent(settings: Settings, proxy: FaultyRedis, looking: Redis, tmp_path: Path) -> None:
    build(settings, tmp_path, corpus_of(one=120, other=60, gone=3), 1)
    assert len(proxy.sent("VADD")) == 183
    proxy.log.clear()
    second = corpus_of(one=122, other=60, new=4)
    place = build(settings, tmp_path, second, 2)
    assert len(proxy.sent("VADD")) == (122 - 64) + 4, "the rest is shared"
    assert checked(settings, place, second) == {"one": 122, "other": 60, "new": 4}
    sizes = [looking.execute_command("VCARD", key) for key in parts(looking, "one")]  # type: ignore[no-untyped-call]
    assert sorted(sizes) == [56, 58, 64]
    proxy.log.clear()
    third = build(settings, tmp_path, second, 3)
    assert proxy.sent("VADD") == []
    assert checked(settings, third, second) == {"one": 122, "other": 60, "new": 4}


def test_vectors_that_no_release_lists_go_with_the_next_sweep(
    settings: Settings, looking: Redis, tmp_path: Path
) -> None:
    first = build(settings, tmp_path, corpus_of(one=9, other=9), 1)
    second = build(settings, tmp_path, corpus_of(one=9), 2)
    looking.delete(keys.vector_release(names_of(first)[0]))
    RedisBuilder(settings, 3).sweep(names_of(second))
    assert (parts(looking), len(parts(looking, "one"))) == (parts(looking, "one"), 1)


def test_what_redis_has_lost_is_sent_again(settings: Settings, looking: Redis, tmp_path: Path) -> None:
    corpus = corpus_of(one=9, other=9)
    first = build(settings, tmp_path, corpus, 1)
    (key,) = parts(looking, "one")
    looking.delete(key)
    with pytest.raises(ReleaseRefused, match="0 of 9 vectors"):
        checked(settings, first, corpus)
    second = build(settings, tmp_path, corpus, 2)
    assert checked(settings, second, corpus) == {"one": 9, "other": 9}
    add(looking, key, "one/stray", "what somebody added")
    looking.hset(keys.vector_release(read_served(second).name), "chat:other", "no list")
    third = build(settings, tmp_path, corpus, 3)
    assert checked(settings, third, corpus) == {"one": 9, "other": 9}
    RedisBuilder(settings, 3).sweep(names_of(third))
    assert len(parts(looking)) == 2


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("VADD", "drop"),
        ("HGETALL", "-LOADING Redis is loading the dataset in memory"),
        ("VCARD", "hang"),
        ("VEMB", "drop"),
    ],
)
def test_a_broken_connection_does_not_end_the_night(
    proxy: FaultyRedis, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, fault: str
) -> None:
    build(settings, tmp_path, corpus_of(one=2), 1)
    if fault == "hang":
        monkeypatch.setattr(redis_index, "NIGHT", replace(NIGHT, answer=slowness()))
    proxy.faults, corpus = {command: [fault]}, corpus_of(one=3)
    place = build(settings, tmp_path, corpus, 2)
    assert checked(settings, place, corpus) == {"one": 3}
    assert proxy.faults == {command: []}
    assert len(proxy.sent(command)) > 1


@pytest.mark.parametrize(
    ("fault", "told", "attempts"),
    [
        ("-OOM command not allowed when used memory > 'maxmemory'.", "OutOfMemoryError", 1),
        ("-NOAUTH Authentication required.", "AuthenticationError", 2),
        ("-NOPERM this user has no permissions", "NoPermissionError", 1),
        ("drop", "ConnectionError", 2),
    ],
)
def test_a_server_that_does_not_take_it_is_named(
    proxy: FaultyRedis,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    told: str,
    attempts: int,
) -> None:
    monkeypatch.setattr(redis_index, "NIGHT", replace(NIGHT, retries=1))
    proxy.all_faults = fault
    with pytest.raises(IndexServerUnavailable, match=f"REDIS_VECTORS_URL.*{told}"):
        RedisBuilder(settings, 1).build(tmp_path / REDIS, corpus_of(one=3))
    assert not (tmp_path / REDIS).exists()
    assert len(proxy.sent("HSET")) == attempts


def _other_list(client: Redis, name: str) -> None:
    release = keys.vector_release(name)
    client.hset(release, "chat:one", client.hget(release, "chat:other") or "")


DAMAGE: dict[str, tuple[Callable[[Redis, str, str], object], str]] = {
    "a vector that is gone": (lambda client, name, key: client.execute_command("VREM", key, "one/1"), "2 of 3 vectors"),  # type: ignore[no-untyped-call]
    "another vector": (lambda client, name, key: add(client, key, "one/1", "x"), "another vector as chunk one/1"),
    "another chat's": (lambda client, name, key: _other_list(client, name), "other vectors of a chat"),
    "one chat fewer": (lambda client, name, key: client.hdel(keys.vector_release(name), "chat:other"), "other chats"),
    "a list that is none": (
        lambda client, name, key: client.hset(keys.vector_release(name), "chat:one", "[[1]]"),
        "other vectors of a chat",
    ),
    "a release that is not whole": (
        lambda client, name, key: client.hset(keys.vector_release(name), "release", ""),
        "has no vectors",
    ),
}  # fmt: skip


def add(client: Redis, key: str, chunk_id: str, text: str) -> None:
    client.execute_command("VADD", key, "FP32", vector_of(text).tobytes(), chunk_id, "NOQUANT", "M", 4)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_index_that_is_not_as_it_was_given_is_refused(
    looking: Redis, settings: Settings, tmp_path: Path, damage: str
) -> None:
    place = build(settings, tmp_path, corpus_of(one=3, other=2))
    change, why = DAMAGE[damage]
    change(looking, read_served(place).name, parts(looking, "one")[0])
    with pytest.raises((ReleaseRefused, IndexServerUnavailable), match=why):
        checked(settings, place, corpus_of(one=3, other=2))


def test_a_sweep_takes_what_dead_attempts_left_and_nothing_else(
    looking: Redis, settings: Settings, proxy: FaultyRedis, tmp_path: Path
) -> None:
    place = build(settings, tmp_path, corpus_of(one=3))
    proxy.faults = {"VADD": ["ok"] * 2 + ["-OOM no"]}
    with pytest.raises(IndexServerUnavailable):
        RedisBuilder(settings, 2).build(tmp_path / REDIS, corpus_of(one=3, two=3))
    theirs = load_settings(redis_vectors_url=proxy.url, index_name="hmem-2")
    others = build(theirs, tmp_path / "others", corpus_of(one=2))
    looking.set("hcli:mem:outbox:main", "something else")
    (died,) = RedisBuilder(settings, 3).left_over(names_of(place))
    assert RedisBuilder(settings, 3).sweep(names_of(place)) == [died]
    left = {*(keys.vector_release(name) for name in names_of(place, others)), "hcli:mem:outbox:main"}
    assert set(looking.scan_iter()) - set(parts(looking)) == left
    sizes = [looking.execute_command("VCARD", key) for key in parts(looking)]  # type: ignore[no-untyped-call]
    assert sorted(sizes) == [2, 3]


def test_a_removal_that_dies_is_repeated(
    settings: Settings, proxy: FaultyRedis, looking: Redis, tmp_path: Path
) -> None:
    first, second = build(settings, tmp_path, corpus_of(one=9)), build(settings, tmp_path, corpus_of(two=9), 2)
    builder, kept = RedisBuilder(settings, 2), names_of(second)
    proxy.faults = {"UNLINK": ["ok", "-OOM no"]}
    with pytest.raises(IndexServerUnavailable):
        builder.sweep(kept)
    assert "is not available" not in (opened(settings, second).why_not or "")
    gone = opened(settings, first)
    assert "does not have" in (gone.why_not or ""), "nobody opens it"
    assert builder.left_over(kept) == names_of(first), "it is not done"
    assert builder.sweep(kept) == names_of(first)
    assert parts(looking) == parts(looking, "two")
