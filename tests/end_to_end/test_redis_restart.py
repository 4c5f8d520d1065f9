"""What every kind of write leaves in a Redis with the shipped configuration and users is there again after a restart, key by key."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dispatcher.queue.tasks import TaskQueue
from shared.config.settings import load_settings
from shared.config.tools import ChatTools
from shared.hooks import feature_names
from shared.turns.records import Task
from tests.servers.redis8 import program
from tests.support.machine import wait_for
from tests.support.redis.script_runs import RUNS
from tests.support.redis.scripts import calls, calls_noted
from tests.support.redis.users import Guarded, guarded_redis, refusals
from tests.support.world import SECRET


def terminate(guarded: Guarded, _: Redis) -> None:
    guarded.stop(signal.SIGTERM)


def kill(guarded: Guarded, _: Redis) -> None:
    guarded.stop(signal.SIGKILL)


def rewrite_and_kill(guarded: Guarded, tester: Redis) -> None:
    before = tester.info("persistence")["aof_rewrites"]
    tester.bgrewriteaof()
    wait_for(lambda: tester.info("persistence")["aof_rewrites"] > before, "the rewrite of the append-only file")
    kill(guarded, tester)


@pytest.mark.parametrize("version", ["7", "8"])
def test_every_write_is_there_after_a_restart(tmp_path: Path, version: str) -> None:
    with guarded_redis(tmp_path / "redis", program=program() if version == "8" else "redis-server") as guarded:
        tester = guarded.client("tester")
        write_everything(guarded, tester)
        left_out, unknown = (
            calls() - calls_noted(guarded.log.read_text()),
            calls_noted(guarded.log.read_text()) - calls(),
        )
        assert not (left_out | unknown), "the runs go through every path of every script"
        assert refusals(tester) == [], "no user lacks a right, also where a script would go on without it"
        expected = content(tester)
        for how in (terminate, kill, rewrite_and_kill, kill):
            how(guarded, tester)
            guarded.start()
            found = content(tester)
            differs = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
            assert not differs, f"after {how.__name__}"
            assert tester.acl_log() == [], "nothing was skipped"
        tester.close()


def write_everything(guarded: Guarded, tester: Redis) -> None:
    """Each run of a script, and each transaction, on keys that nothing else has written; what it leaves is kept under other names."""
    number = 0
    for run in RUNS:
        for user in run.users.split():
            client = guarded.client(user)
            run.carry_out(client, tester)
            client.close()
            number += 1
            put_aside(tester, number)
    for transaction in TRANSACTIONS:
        asyncio.run(transaction(guarded.urls["dispatcher"]))
        number += 1
        put_aside(tester, number)


def put_aside(tester: Redis, number: int) -> None:
    for key in list(tester.scan_iter(match="hcli:*", count=1000)):
        tester.rename(key, b"%d:%s" % (number, key))


def content(tester: Redis) -> dict[bytes, tuple[Any, Any]]:
    """Each key with its value as Redis dumps it, hashes and sets in any order, and the time at which it expires."""
    return {key: (value(tester, key), tester.pexpiretime(key)) for key in tester.scan_iter(count=1000)}


def value(tester: Redis, key: bytes) -> Any:
    kind = tester.type(key)
    if kind == b"hash":
        return tester.hgetall(key)
    if kind == b"set":
        return tester.smembers(key)
    if kind == b"zset":
        return tester.zrange(key, 0, -1, withscores=True)
    return tester.lrange(key, 0, -1) if kind == b"list" else tester.get(key)


async def heartbeat(url: str) -> None:
    async with AsyncRedis.from_url(url) as client:
        await TaskQueue(client, lambda _, __: True, load_settings()).beat(7, "mark")


async def record_of_a_tool(url: str) -> None:
    from dispatcher.features.approvals.approvals import Approvals

    async with AsyncRedis.from_url(url) as client:
        approvals = Approvals(load_settings(result_hmac_key=SECRET), client)
        approvals.dispatcher_stopping()
        await approvals.of(Task("t1", "9912", "list it"), ChatTools(asked=("Bash",)))("Bash", {"command": "ls"})


#: Those that are sent by MULTI and EXEC.
TRANSACTIONS = (heartbeat, *((record_of_a_tool,) if "approvals" in feature_names() else ()))
