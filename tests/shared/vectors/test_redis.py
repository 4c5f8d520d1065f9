"""The index on Redis with the search module: what is sent, what is refused, and what happens when the server does not do its part.

Redis with the module cannot be had in every place, so a stand-in has its part, strict about the documented form of each command; with
HMEM_TEST_REDIS_STACK_URL what needs no fault runs against that server instead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from redis import Redis, ResponseError
from redis.commands.search.query import Query

from shared.config.settings import Settings, load_settings
from shared.embedding.models import EmbeddingIdentity
from shared.errors import IndexServerUnavailable, ReleaseRefused, SettingsError
from shared.release.manifest import REDIS, Manifest, seal
from shared.vectors import searching
from shared.vectors.base import Corpus
from shared.vectors.on_server import Served, read_served, write_served
from shared.vectors.redis import index as redis_search
from shared.vectors.redis.index import RedisBackend, RedisBuilder
from shared.vectors.redis.server import tag_of
from shared.vectors.searching import MOST_COMPARED
from shared.wire import keys
from tests.servers.redisearch import RediSearch, redis_settings, remove_indexes
from tests.support.machine import free_port, slowness

DIMENSIONS = 8
IDENTITY = EmbeddingIdentity("made-up", DIMENSIONS, "", "", "test", "d1")


def vector_of(text: str) -> Any:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    made = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return made / np.linalg.norm(made)


def corpus_of(**counts: int) -> Corpus:
    """So many notes of each chat."""
    chats = {}
    for chat, count in counts.items():
        ids = [f"{chat}/{row}" for row in range(count)]
        chats[chat] = (ids, np.array([vector_of(one) for one in ids]))
    return Corpus(chats, {}, {chat: [1.7e9 + row for row in range(len(ids))] for chat, (ids, _) in chats.items()})


class Asked:
    """An embedder without a model."""

    identity = IDENTITY

    def embed_query(self, text: str) -> Any:
        return vector_of(text)

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "open_embedder", lambda settings: Asked())


@pytest.fixture(scope="module")
def server() -> Iterator[RediSearch]:
    with RediSearch() as running:
        yield running


@pytest.fixture
def stand_in(server: RediSearch) -> Iterator[RediSearch]:
    """Empty, well, and at the end content with everything that was sent."""
    server.redis.flushall()
    server.touched([b"FLUSHALL"])
    server.log.clear()
    yield server
    server.faults, server.all_faults, server.busy = {}, None, 0
    complaints = server.complaints[:]
    server.complaints.clear()
    assert complaints == []


@pytest.fixture
def settings(stand_in: RediSearch) -> Settings:
    return load_settings(redis_stack_url=stand_in.url)


def build(settings: Settings, root: Path, corpus: Corpus, run: int = 1) -> Path:
    """A built index, as the file that names it in a sealed release."""
    place = root / str(run) / REDIS
    place.parent.mkdir(parents=True)
    RedisBuilder(settings, run).build(place, corpus)
    seal(place.parent, Manifest(run, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, {}, {}, {}, {}))
    return place


def opened(settings: Settings, place: Path) -> RedisBackend:
    found = RedisBackend(settings, place.parent, IDENTITY)
    found.open()
    return found


# ------------------------------------------------------------------------------------------------------------- what it does


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


def test_an_index_of_nothing_is_one_too(settings: Settings, tmp_path: Path) -> None:
    place = build(settings, tmp_path, Corpus({}))
    builder = RedisBuilder(settings, 1)
    assert builder.check(place, tmp_path / "scratch", Corpus({})).vectors == {}
    builder.follow(place)
    found = opened(settings, place)
    assert found.is_available(), found.why_not
    assert found.search("anything", "1", 5) == []
    found.close()


# ------------------------------------------------------------------------------------------------------------ what is sent


def test_every_command_of_a_small_release(stand_in: RediSearch, settings: Settings, tmp_path: Path) -> None:
    """As redis.io documents them. An index that nothing is asked of but this."""
    corpus = corpus_of(c=1)
    first, second = build(settings, tmp_path, corpus, 1), build(settings, tmp_path, corpus, 2)
    builder = RedisBuilder(settings, 2)
    builder.check(second, tmp_path / "scratch", corpus)
    builder.follow(second)
    found = opened(settings, second)
    found.search("c/0", "c", 3)
    found.close()
    assert builder.sweep([read_served(second).name]) == [read_served(first).name]
    tag, blob = tag_of("c"), vector_of("c/0").tobytes()
    words = {read_served(first).name.encode(): "OLD", read_served(second).name.encode(): "NEW", blob: "BLOB"}
    sent = [" ".join(words.get(word) or word.decode() for word in one) for one in stand_in.sent()]
    schema = (
        "SCORE 1.0 SCHEMA chat TAG SEPARATOR , CASESENSITIVE said_at NUMERIC SORTABLE "
        "vector VECTOR FLAT 6 TYPE FLOAT32 DIM 8 DISTANCE_METRIC COSINE"
    )

    def nearest(k: int, limit: int) -> str:
        return (
            f"FT.SEARCH NEW (@chat:{{{tag}}})=>[KNN {k} @vector $vector HYBRID_POLICY ADHOC_BF AS vector_distance] TIMEOUT {limit} "
            f"RETURN 3 chat_id chunk_id vector_distance SORTBY vector_distance ASC DIALECT 2 LIMIT 0 {k} PARAMS 2 vector BLOB"
        )

    assert sent == [
        "FT.INFO OLD",
        f"FT.CREATE OLD ON HASH PREFIX 1 {keys.vectors(read_served(first).name)} {schema}",
        "FT.INFO NEW",
        f"FT.CREATE NEW ON HASH PREFIX 1 {keys.vectors(read_served(second).name)} {schema}",
        "FT.INFO NEW",
        "FT.INFO NEW",
        f"FT.SEARCH NEW @chat:{{{tag}}} NOCONTENT TIMEOUT 61000 DIALECT 2 LIMIT 0 0",
        nearest(1, 61000),
        "FT.ALIASUPDATE hmem NEW",
        "FT.INFO NEW",
        "FT.INFO NEW",
        nearest(3, 3000),
        "FT._LIST",
        "FT.DROPINDEX OLD DD",
    ]
    assert all(b"DIALECT 2" in b" ".join(one) for one in stand_in.sent("FT.SEARCH"))
    (row, _) = stand_in.sent("HSET")
    assert row[1:] == [
        f"{keys.vectors(read_served(first).name)}0".encode(),
        *(b"chat", tag.encode(), b"chat_id", b"c", b"chunk_id", b"c/0", b"said_at", b"1700000000.0", b"vector", blob),
    ]
    made = stand_in.log.index(stand_in.sent("FT.CREATE")[0])
    assert made < stand_in.log.index(row), "the index first, so that it knows all of its hashes"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("FT.SEARCH made *=>[KNN%203%20@vector%20$v] PARAMS 2 v x", "DIALECT 2"),
        ("FT.SEARCH made *=>[KNN%203%20@vector%20$v] PARAMS 2 v short DIALECT 2", "blob size"),
        ("FT.SEARCH made *=>[KNN%203%20@vector%20$v] PARAMS 1 v DIALECT 2", "PARAM VALUE pairs"),
        ("FT.SEARCH made *=>[KNN%203%20@nothing%20$v] PARAMS 2 v x DIALECT 2", "Unknown field"),
        ("FT.SEARCH made @chat:{a-b} DIALECT 2", "Syntax error"),
        ("FT.SEARCH made @chat:{} DIALECT 2", "Syntax error"),
        ("FT.SEARCH made * LIMIT 0", "missing"),
        ("FT.SEARCH made * RETURN 5 chat", "missing"),
        ("FT.SEARCH made * SORTBY nothing", "not loaded nor in schema"),
        ("FT.SEARCH made * DIALECT 9", "DIALECT requires"),
        ("FT.SEARCH made * NOSUCH", "Unknown argument"),
        ("FT.SEARCH nothing *", "Unknown index name"),
        ("FT.CREATE made ON HASH PREFIX 1 x: SCHEMA a TAG", "already exists"),
        ("FT.CREATE other ON HASH PREFIX 1 x: SCHEMA a TAG a TAG", "Duplicate"),
        ("FT.CREATE other ON HASH PREFIX 1 x: SCHEMA v VECTOR FLAT 4 TYPE FLOAT32 DIM 8", "mandatory"),
        (
            "FT.CREATE other ON HASH PREFIX 1 x: SCHEMA v VECTOR FLAT 6 TYPE FLOAT32 DIM 0 DISTANCE_METRIC COSINE",
            "dimension",
        ),
        ("FT.CREATE other ON HASH PREFIX 1 x: SCHEMA v VECTOR FLAT 2 M 16", "FLAT: M"),
        ("FT.CREATE other SCHEMA a TAG ON HASH", "No schema"),
        ("FT.DROPINDEX made DOCS", "wrong number"),
        ("FT.ALIASUPDATE alias", "wrong number"),
        ("FT.ALIASUPDATE alias nothing", "Unknown index name"),
    ],
)
def test_the_stand_in_refuses_what_is_out_of_place(stand_in: RediSearch, command: str, why: str) -> None:
    form = "6 TYPE FLOAT32 DIM 8 DISTANCE_METRIC COSINE"
    client: Any = Redis.from_url(stand_in.url)
    client.execute_command(*f"FT.CREATE made ON HASH PREFIX 1 made: SCHEMA chat TAG vector VECTOR FLAT {form}".split())
    with pytest.raises(ResponseError, match=why):
        client.execute_command(*(word.replace("%20", " ") for word in command.split()))
    assert len(stand_in.complaints) == (why != "Unknown index name")
    stand_in.complaints.clear()
    client.close()


def test_the_stand_in_speaks_both_protocols(stand_in: RediSearch, settings: Settings, tmp_path: Path) -> None:
    name = read_served(build(settings, tmp_path, corpus_of(one=3))).name
    answers = []
    for protocol in (2, 3):
        client: Any = Redis.from_url(stand_in.url, protocol=protocol, legacy_responses=False)
        found = client.ft(name).search(Query("@chat:{" + tag_of("one") + "}").return_fields("chunk_id").paging(1, 5))
        info = client.ft(name).info()
        answers.append((found.total, [one.chunk_id for one in found.docs], info["num_docs"], info["index_name"]))
        client.close()
    assert answers[0] == answers[1] == (3, ["one/1", "one/2"], "3", name)


# --------------------------------------------------------------------------------------------------------------- the night


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


# ----------------------------------------------------------------------------------------------------------------- refusals


def test_a_server_without_the_module_is_refused(stand_in: RediSearch) -> None:
    with pytest.raises(SettingsError, match=r"no search module.*Run Redis 8 or Redis Stack"):
        RedisBuilder(load_settings(redis_stack_url=stand_in.plain_url), 1).refuse_unless_usable()


def test_another_database_and_a_policy_that_drops_vectors_are_refused(stand_in: RediSearch, settings: Settings) -> None:
    builder = RedisBuilder(settings, 1)
    builder.refuse_unless_usable()
    with pytest.raises(SettingsError, match="another database than 0"):
        RedisBuilder(load_settings(redis_stack_url=stand_in.url[:-1] + "3"), 1).refuse_unless_usable()
    stand_in.redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(SettingsError, match=r"allkeys-lru: when its memory is full, it silently deletes vectors"):
            builder.refuse_unless_usable()
    finally:
        stand_in.redis.config_set("maxmemory-policy", "noeviction")


def test_a_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    settings = load_settings(redis_stack_url=f"redis://somebody:open-sesame@127.0.0.1:{free_port()}/0")
    with pytest.raises(IndexServerUnavailable) as refused:
        RedisBuilder(settings, 1).refuse_unless_usable()
    assert "ConnectionError" in str(refused.value)
    (tmp_path / "1").mkdir()
    write_served(tmp_path / "1" / REDIS, Served("hmem-1-00000000", 3, DIMENSIONS))
    seal(tmp_path / "1", Manifest(1, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, {}, {}, {}, {}))
    found = opened(settings, tmp_path / "1" / REDIS)
    assert "the redis server does not answer" in cast(str, found.why_not)
    assert "sesame" not in f"{refused.value}{found.why_not}"
    found.close()


# ------------------------------------------------------------------------------------------------------------------ the day


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
        seal(place.parent, Manifest(1, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, {}, {}, {}, {}))
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


def test_what_tests_make_on_a_server_is_removed(stand_in: RediSearch, tmp_path: Path) -> None:
    settings = load_settings(redis_stack_url=stand_in.url, index_name="test-1")
    RedisBuilder(settings, 1).follow(build(settings, tmp_path, corpus_of(one=2)))
    remove_indexes(stand_in.url, "test-1")
    assert (stand_in.indexes, stand_in.aliases, stand_in.redis.dbsize()) == ({}, {}, 0)
