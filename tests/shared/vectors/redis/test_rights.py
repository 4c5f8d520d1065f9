"""Each part stores and searches vectors as its own user of a Redis 8, and may do no more (deploy/redis-users.acl and the additions to it)."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError

from shared.config.settings import Settings, load_settings
from shared.vectors.on_server import read_served
from shared.vectors.redis.index import RedisBuilder
from shared.wire import keys
from tests.servers.redis8 import program
from tests.support.night.indexes.on_redis import build, corpus_of, opened
from tests.support.redis.users import Guarded, guarded_redis, refusals
from tests.support.world import REPOSITORY


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    printed = runpy.run_path(str(REPOSITORY / "scripts" / "redis_users.py"))["additions"]()
    additions = dict(line.split(": ", 1) for line in printed.splitlines())
    with guarded_redis(tmp_path_factory.mktemp("guarded"), program=program(), additions=additions) as running:
        yield running


@pytest.fixture
def admin(guarded: Guarded) -> Iterator[Redis]:
    with guarded.client("tester") as client:
        client.flushall()
        client.acl_log_reset()
        yield client


def test_nights_days_and_the_owner_as_their_own_users(guarded: Guarded, admin: Redis, tmp_path: Path) -> None:
    night, day, owner = (_as(guarded, user) for user in ("night", "dispatcher", "owner"))
    builder = RedisBuilder(night, 2)
    builder.refuse_unless_usable()
    first, second, third = (build(night, tmp_path, corpus_of(one=20 + run, gone=3 - run), run) for run in (1, 2, 3))
    assert builder.check(second, tmp_path / "scratch", corpus_of(one=22, gone=1)).vectors == {"one": 22, "gone": 1}
    assert builder.sweep([read_served(place).name for place in (second, third)]) == [read_served(first).name]
    for user in (day, owner):
        found = opened(user, second)
        assert found.similarities("note 21 of one", "one", ["one/21"])[0] > 0.99, found.why_not
        gone = opened(user, first)
        assert "does not have" in (gone.why_not or "")
        found.close()
        gone.close()
    owners = RedisBuilder(owner, 0)
    owners.refuse_unless_usable()
    assert owners.left_over([read_served(third).name]) == [read_served(second).name]
    assert owners.sweep([]) == [read_served(place).name for place in (second, third)]
    assert list(admin.scan_iter()) == []
    assert refusals(admin) == []


def _as(guarded: Guarded, user: str) -> Settings:
    return load_settings(redis_url=guarded.urls[user])


PART, RELEASE = keys.vector_part("c", "d"), keys.vector_release("i")
REFUSED = {
    "dispatcher": [f"VADD {PART} VALUES 1 1 a", f"VREM {PART} a", f"UNLINK {PART}", f"HSET {RELEASE} a b"],
    "bot": [f"VSIM {PART} VALUES 1 1", f"HGETALL {RELEASE}"],
    "hcli-bot": [f"VSIM {PART} VALUES 1 1", f"VEMB {PART} a"],
    "night": [f"VREM {PART} a", f"VSETATTR {PART} a {{}}", f"COPY {RELEASE} hcli:tasks", f"COPY hcli:tasks {RELEASE}", "VSIM hcli:tasks VALUES 1 1"],
    "owner": [f"VADD {PART} VALUES 1 1 a", f"COPY {RELEASE} {RELEASE}"],
}  # fmt: skip


@pytest.mark.parametrize(("user", "line"), [(user, line) for user in REFUSED for line in REFUSED[user]])
def test_what_a_user_must_not_do_with_vectors_is_refused(guarded: Guarded, admin: Redis, user: str, line: str) -> None:
    with guarded.client(user) as client, pytest.raises(NoPermissionError):
        client.execute_command(*line.split())
