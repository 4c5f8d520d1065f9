"""What every kind of write leaves in a Redis with the shipped configuration and users is there again after a restart, key by key."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any, cast

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dispatcher.health.checks.redis import check_restart
from dispatcher.health.findings import Setup
from dispatcher.memory.tombstones import Forgotten
from dispatcher.queue.tasks import TaskQueue
from shared.config.settings import load_settings
from shared.hooks import feature_names
from shared.turns.records import ROLES, Tombstone, loads_object
from shared.wire.acl import DEFAULT, renewed
from tests.servers.redis8 import program
from tests.support.day.hcli_bot import Bot
from tests.support.machine import wait_for
from tests.support.redis.script_runs import RUNS
from tests.support.redis.scripts import calls, calls_noted
from tests.support.redis.users import Guarded, guarded_redis, refusals
from tests.support.world import SECRET, World


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


def test_what_earlier_users_of_redis_lose_at_a_restart_comes_back_with_the_rights_of_this_version(
    installed: World, guarded: Guarded, admin: Redis
) -> None:
    """The doctor sees it before and after; what was erased meanwhile is served nowhere, and leaves Redis with the next night."""
    today = guarded.users.read_text()
    guarded.users.write_text(today.replace(DEFAULT, "user default reset off").replace(" +acl|dryrun", ""))
    admin.acl_load()
    bot, words = Bot(guarded.client("hcli-bot")), ("The boiler code is 4711.", "My secret is a zebra.")
    running = installed.start_dispatcher()
    zebra = [bot.send(text, 9912) for text in words][1]
    wait_for(lambda: admin.exists(f"hcli:results:{zebra}"), "the answers")
    assert running.stop() == 0
    said_at = {
        f"{zebra}:{role}": loads_object(cast(bytes, admin.get(f"hcli:memory:{zebra}:{role}")))["timestamp"]
        for role in ROLES
    }
    assert restart_of(installed, guarded, "owner")[0] == "problem"
    kill(guarded, admin)
    guarded.start()
    assert list(admin.scan_iter(match="hcli:memory:*")) == []
    state, sentence = restart_of(installed, guarded, "owner")
    assert (state, "It skipped" in sentence) == ("problem", True), sentence

    erase(installed, said_at)
    guarded.users.write_text(renewed(guarded.users.read_text()))
    assert guarded.users.read_text() == today
    admin.acl_load()
    assert "They come back" in restart_of(installed, guarded, "owner")[1]
    kill(guarded, admin)
    guarded.start()
    assert len(list(admin.scan_iter(match="hcli:memory:*"))) == 4
    for user in ("dispatcher", "owner"):
        assert restart_of(installed, guarded, user)[0] == "ok"

    installed.command("hmem-night", "run", REDIS_URL=guarded.urls["night"])
    asked = installed.command(
        "hmem", "context", "9912", "what is the secret zebra, and the boiler code?", REDIS_URL=guarded.urls["owner"]
    ).stdout
    assert ("zebra" in asked, "boiler" in asked) == (False, True), asked
    assert list(admin.scan_iter(match="hcli:memory:*")) == []
    held = [path for path in installed.root.rglob("*") if path.is_file() and b"zebra" in path.read_bytes()]
    assert [
        path for path in held if path.is_relative_to(installed.night_dir) or path.is_relative_to(installed.memory_dir)
    ] == []


def restart_of(installed: World, guarded: Guarded, user: str) -> tuple[str, str]:
    """What the doctor says of a restart of Redis."""
    settings = installed.settings(redis_url=guarded.urls[user], redis_admin_url=guarded.urls["admin"])
    with guarded.client(user) as client:
        found = check_restart(Setup(settings, client))
    return found.state, found.sentence


def erase(installed: World, said_at: dict[str, float]) -> None:
    """As `hmem forget` leaves it where Redis lacks the turns at that time."""
    tombstone = Tombstone("erase-1", "9912", time.time(), turn_ids=frozenset(said_at), erase=True, said_at=said_at)
    installed.push_tombstone(tombstone)
    Forgotten(installed.settings().hmem_state_dir).add(tombstone)


async def heartbeat(url: str) -> None:
    async with AsyncRedis.from_url(url) as client:
        await TaskQueue(client, 10_000, lambda _, __: True).beat(7, "mark")


async def record_of_a_tool(url: str) -> None:
    from dispatcher.features.approvals.approvals import Approvals
    from dispatcher.features.approvals.signed import ToolDecision, ToolQuestion

    async with AsyncRedis.from_url(url) as client:
        approvals = Approvals(load_settings(result_hmac_key=SECRET), client)
        question = ToolQuestion("9912", "1", "t1", "Bash", "ls", 5e9)
        await approvals.record("a1", question, ToolDecision("allowed", "9912", "1", "Ana"), {"command": "ls"})


#: Those that are sent by MULTI and EXEC.
TRANSACTIONS = (heartbeat, *((record_of_a_tool,) if "approvals" in feature_names() else ()))
