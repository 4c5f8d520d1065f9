"""What is sent to Redis for a release, command by command, and what the stand-in refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from redis import Redis, ResponseError
from redis.commands.search.query import Query

from shared.config.settings import Settings, load_settings
from shared.vectors.on_server import read_served
from shared.vectors.redis.index import RedisBuilder
from shared.vectors.redis.server import tag_of
from shared.wire import keys
from tests.servers.redisearch import RediSearch, remove_indexes
from tests.support.night.indexes.on_redis import build, corpus_of, opened, vector_of


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


def test_what_tests_make_on_a_server_is_removed(stand_in: RediSearch, tmp_path: Path) -> None:
    settings = load_settings(redis_stack_url=stand_in.url, index_name="test-1")
    RedisBuilder(settings, 1).follow(build(settings, tmp_path, corpus_of(one=2)))
    remove_indexes(stand_in.url, "test-1")
    assert (stand_in.indexes, stand_in.aliases, stand_in.redis.dbsize()) == ({}, {}, 0)
