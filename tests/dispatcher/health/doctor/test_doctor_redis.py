"""What `hmem doctor` finds of Redis: every fault is produced for real, with a redis-server of its own.

Only the clock is a parameter: a test cannot turn this host's.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.health.findings import Fault
from tests.support.day.health import expect, looks, redis_server, url_of
from tests.support.machine import free_port
from tests.support.world import World


def test_a_redis_that_takes_no_writes(host: World, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r", "--appendonly", "yes", "--maxmemory", "1") as client:
        host.url = url_of(client)
        full = looks(host, "redis")
        assert (full.code, "out of memory" in full.sentence, "maxmemory" in full.fix) == (11, True, True)
        client.config_set("maxmemory", 0)
        client.replicaof("127.0.0.1", str(free_port()))
        refused = looks(host, "redis")
        assert (refused.code, refused.fix) == (11, "Set REDIS_URL to its primary.")


def allow(client: Redis, rules: str) -> None:
    """The user `mine` with the password `pw` and these rights alone."""
    client.execute_command("ACL", "SETUSER", "mine", "reset", "on", ">pw", *rules.split())  # type: ignore[no-untyped-call]


def test_a_redis_whose_default_user_may_not_replay_its_file(host: World, tmp_path: Path) -> None:
    """A restart of it would lose turns in silence."""
    with redis_server(tmp_path / "r", "--appendonly", "yes") as client:
        allow(client, "~* &* +@all")
        host.url = url_of(client, "mine:pw@")
        assert looks(host, "restart").state == "ok"
        client.execute_command("ACL", "SETUSER", "default", "-rpush")  # type: ignore[no-untyped-call]
        found = looks(host, "restart")
    assert (found.state, found.code) == ("problem", Fault.PERSISTENCE)
    assert "A restart of Redis loses turns" in found.sentence
    assert "may not run RPUSH" in found.sentence


def test_a_redis_user_without_rights(host: World, durable: Redis) -> None:
    allow(durable, "~hcli:tasks +@all -evalsha -set -info -config -acl")
    before = {key: durable.dump(key) for key in durable.scan_iter()}
    found = expect(
        host, "rights", Fault.REDIS_RIGHTS, "mine may not run our scripts", "Give mine the rules of the user",
        REDIS_URL=url_of(durable, "mine:pw@"),
    )  # fmt: skip
    for name in ("eviction", "persistence"):
        assert found[name].state == "skipped"
        assert "This Redis user may not check this" in found[name].sentence
    allow(durable, "~hcli:mem:[^n]* ~hcli:[^m]* ~hcli:memory:* +@all")
    host.url = url_of(durable, "mine:pw@")
    refused = looks(host, "rights")
    assert (refused.state, refused.code) == ("problem", Fault.REDIS_RIGHTS)
    assert "GET hcli:mem:night:last" in refused.sentence
    assert {key: durable.dump(key) for key in durable.scan_iter()} == before


def test_the_clock_of_another_day(host: World) -> None:
    ahead = looks(host, "clock", now=lambda: time.time() + 120)
    assert (ahead.state, ahead.code) == ("problem", Fault.CLOCK)
    assert re.search("clock of this host is 1[12][0-9] s ahead of Redis.*wrong", ahead.sentence)
    assert "set-ntp" in ahead.fix
    assert "behind" in looks(host, "clock", now=lambda: time.time() - 61).sentence
    assert looks(host, "clock", now=lambda: time.time() - 50).state == "ok"


@pytest.mark.slow
def test_turns_that_expire_are_a_problem(host: World) -> None:
    """As h-cli's dispatcher stores them."""
    host.say("ours", "hello")
    assert looks(host, "expiry").state == "ok"
    for task in ("theirs", "theirs-too"):
        host.redis.expire(host.say(task, "hello"), 14_400 if task == "theirs" else 7_200)
    expect(host, "expiry", 32, "2 turns expire in Redis, the first in 2.0 hours, the last in 4.0", "SESSION_TTL=172800")
