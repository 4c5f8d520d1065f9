"""What `hmem doctor` finds of Redis: every fault is produced for real, with a redis-server of its own.

Only the clock is a parameter: a test cannot turn this host's.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.health.checks.redis import KEYLESS, uses
from dispatcher.health.findings import Fault
from tests.support.day.health import ask, expect, looks, redis_server, url_of
from tests.support.machine import free_port, wait_for
from tests.support.world import STAND_IN, World


def test_no_redis(host: World) -> None:
    found = expect(
        host, "redis", 11, "does not answer.*refused", "Start it, or set REDIS_URL", REDIS_URL=f"redis://127.0.0.1:{free_port()}/0"
    )  # fmt: skip
    for name in ("rights", "eviction", "persistence", "clock", "night"):
        assert found[name].state == "skipped"
        assert "the check of redis failed" in found[name].sentence


def test_a_policy_that_drops_what_expires(host: World, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl") as client:
        host.url = url_of(client)
        found = looks(host, "eviction")
    assert (found.state, found.code) == ("problem", Fault.EVICTION_POLICY)
    assert "volatile-ttl" in found.sentence
    assert "silently drops sessions and marks" in found.sentence


def test_a_redis_that_takes_no_writes(host: World, tmp_path: Path) -> None:
    with redis_server(tmp_path / "r", "--appendonly", "yes", "--maxmemory", "1") as client:
        code, found = ask(host, REDIS_URL=url_of(client))
        assert (code, found["rights"].code, "out of memory" in found["rights"].sentence) == (11, 11, True)
        assert "maxmemory" in found["rights"].fix
        client.config_set("maxmemory", 0)
        client.replicaof("127.0.0.1", str(free_port()))
        host.url = url_of(client)
        refused = looks(host, "rights")
        assert (refused.code, refused.fix) == (11, "Set REDIS_URL to its primary.")


def allow(client: Redis, rules: str) -> None:
    """The user `mine` with the password `pw` and these rights alone."""
    client.execute_command("ACL", "SETUSER", "mine", "reset", "on", ">pw", *rules.split())  # type: ignore[no-untyped-call]


def test_a_redis_user_without_rights(host: World, durable: Redis) -> None:
    allow(durable, "~hcli:tasks +@all -evalsha -set -info -config -acl")
    before = durable.dbsize()
    found = expect(
        host, "rights", Fault.REDIS_RIGHTS, "user mine may not run .*EVALSHA.* and may not reach .*hcli:mem:unmoved.*could not be taken",
        r"ACL SETUSER mine '~hcli:\*' .*\+evalsha", REDIS_URL=url_of(durable, "mine:pw@"),
    )  # fmt: skip
    assert "hcli:tasks" not in found["rights"].sentence
    for name in ("eviction", "persistence"):
        assert found[name].state == "skipped"
        assert "This Redis user may not check this" in found[name].sentence
    assert durable.dbsize() == before
    allow(durable, "~* +@all -exec")
    host.url = url_of(durable, "mine:pw@")
    expect(host, "rights", Fault.REDIS_RIGHTS, "may not run EXEC,", r"mine \+exec ")


def test_without_transactions_the_rights_are_still_tried_without_harm(host: World, durable: Redis) -> None:
    before = {key: durable.dump(key) for key in durable.scan_iter()}
    for missing in ("multi", "exec"):
        allow(durable, f"~* +@all -{missing}")
        host.url = url_of(durable, "mine:pw@")
        found = looks(host, "rights")
        assert (found.state, found.code) == ("problem", Fault.REDIS_RIGHTS)
        assert missing.upper() in found.sentence
    assert {key: durable.dump(key) for key in durable.scan_iter()} == before


def test_the_rights_asked_for_are_those_the_dispatcher_needs(host: World, durable: Redis) -> None:
    """A user who has exactly these answers a message, also after a dispatcher died."""
    commands = {name for used in uses().values() for name in used.split()}
    commands |= {line.split()[0] for line in KEYLESS if "SCRIPT" not in line}
    grants = [f"+{name.lower()}" for name in sorted(commands | {"MULTI", "EXEC"})] + ["+script|load"]
    keys = [f"~{key.replace('doctor', '*')}" for key in uses()]
    allow(durable, " ".join([*keys, *grants]))
    durable.sadd("hcli:mem:workers", "dead-worker")
    lost = '{"task_id":"lost","message":"hello","chat_id":"7","user_id":1}'
    durable.hset("hcli:mem:inflight:dead-worker", "dead-worker:1", lost)
    host.url = url_of(durable, "mine:pw@")
    host.environment["CLAUDE_BIN"] = str(STAND_IN)
    durable.script_flush()
    durable.acl_log_reset()
    running = host.start_dispatcher()
    try:
        assert host.command("hmem", "ask", "9912", "What is the boiler code?", REDIS_URL=url_of(durable)).stdout
        wait_for(lambda: durable.exists("hcli:results:lost"), "the dead dispatcher's task")
    finally:
        assert running.stop() == 0, running.log.read_text()
    denied = {(entry["context"], entry["object"]) for entry in durable.acl_log()}
    assert not denied


def test_the_clock_of_another_day(host: World) -> None:
    ahead = looks(host, "clock", now=lambda: time.time() + 120)
    assert (ahead.state, ahead.code) == ("problem", Fault.CLOCK)
    assert re.search("clock of this host is 1[12][0-9] s ahead of Redis.*wrong", ahead.sentence)
    assert "set-ntp" in ahead.fix
    assert "behind" in looks(host, "clock", now=lambda: time.time() - 61).sentence
    assert looks(host, "clock", now=lambda: time.time() - 50).state == "ok"


@pytest.mark.parametrize(("keys", "sentence"), [
    ("~hcli:mem:[^m]* ~hcli:mem:media* ~hcli:[^m]*", "may not reach hcli:mem:morning, so the owner would get no alarm and no report"),
    ("~hcli:mem:[^n]* ~hcli:[^m]*", "may not reach hcli:mem:night:last, hcli:mem:night:failed, .*so a missed night would not be noticed"),
], ids=["of an older version", "without the nights"])  # fmt: skip
def test_what_a_user_would_not_notice_is_said(host: World, durable: Redis, keys: str, sentence: str) -> None:
    allow(durable, f"{keys} ~hcli:memory:* +@all")
    expect(host, "rights", Fault.REDIS_RIGHTS, sentence, "ACL SETUSER", REDIS_URL=url_of(durable, "mine:pw@"))


@pytest.mark.slow
def test_turns_that_expire_are_a_problem(host: World) -> None:
    """As h-cli's dispatcher stores them."""
    host.say("ours", "hello")
    assert looks(host, "expiry").state == "ok"
    for task in ("theirs", "theirs-too"):
        host.redis.expire(host.say(task, "hello"), 14_400 if task == "theirs" else 7_200)
    expect(host, "expiry", 32, "2 turns expire in Redis, the first in 2.0 hours, the last in 4.0", "SESSION_TTL=172800")
