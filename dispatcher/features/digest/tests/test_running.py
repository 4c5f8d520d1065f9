"""Alarm, report, heartbeat and digests of a running dispatcher: when it stops, when Claude fails, and with the rights of its user."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path

import pytest
from redis import Redis

from dispatcher.features.digest.part import note_outcome
from dispatcher.features.digest.tests.looking import (
    failed_night,
    good_night,
    outbox,
    part_of,
    ran_since,
)
from dispatcher.health.findings import Setup
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.store.memories import MemoryType
from shared.wire.client import open_async_redis
from tests.servers.heartbeat import HeartbeatServer
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import wait_for
from tests.support.redis.users import Guarded, guarded_redis, refusals
from tests.support.world import World


def test_a_dispatcher_that_stops_lets_a_look_end_first(light: World) -> None:
    """Its connection was once closed while it read: the process stayed for the 30 seconds of its time limit, and logged a traceback."""
    code = (
        "from dispatcher.cli import main as cli\nfrom dispatcher.features.digest import part\npart.FIRST_SECONDS = 0\n"
        "def slow(setup): setup.redis.set('begun', 1); setup.redis.blpop('never', 2); setup.redis.set('ended', 1)\n"
        "part.DigestPart.tells = lambda self: {'slow': slow}\ncli.main()"
    )
    log = light.root / "slow-look.log"
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            [sys.executable, "-c", code, "run"], env=light.variables(), stdout=stream, stderr=stream
        ) as running,
    ):
        wait_for(lambda: light.redis.get("begun"), "the look to begin")
        running.terminate()
        assert running.wait(600) == 0
    assert light.redis.get("ended") and "in the background" not in log.read_text(), log.read_text()


@pytest.mark.slow
def test_the_errors_of_claude_are_noted_until_it_answers(light: World) -> None:
    unpaid = '{"is_error": true, "api_error_status": 400, "result": "Third-party apps now draw from your extra usage"}'
    body = f"""case "$MESSAGE" in *bill*) echo '{unpaid}'; exit 1;; *fail*) exit 1;; esac; {SAY} done"""
    running, bot = light.start_dispatcher(CLAUDE_BIN=script(light, body)), Bot(light.redis)
    assert "my owner has to look at it" in bot.ask("the bill?", 9913)
    wait_for(lambda: light.redis.hdel("hcli:mem:claude", "unpaid"), "the refusal to be noted for the owner")
    light.redis.delete("hcli:mem:claude")
    assert "Sorry" in bot.ask("fail", 9914)
    wait_for(lambda: light.redis.hlen("hcli:mem:claude") == 2, "the error to be noted: the answer does not wait for it")
    assert set(light.redis.hgetall("hcli:mem:claude")) == {b"first", b"last"}
    assert bot.ask("hello?", 9915) == "done"
    wait_for(lambda: not light.redis.exists("hcli:mem:claude"), "the answer to be noted")
    assert running.stop() == 0


@pytest.mark.slow
def test_alarms_report_heartbeat_and_digests_as_the_user_dispatcher(light: World, tmp_path: Path) -> None:
    with guarded_redis(tmp_path / "guarded") as guarded, closing(guarded.client("tester")) as admin:
        tell_all(light, guarded, admin)
        assert refusals(admin) == []


def tell_all(world: World, guarded: Guarded, admin: Redis) -> None:
    ran_since(world.root / "state")
    good_night(admin, time.time() - 120)
    failed_night(admin, time.time() - 60)
    admin.hset("hcli:mem:digests", "9912", "2026-01-01")
    with HeartbeatServer() as service, closing(guarded.client("dispatcher")) as client:
        settings = world.settings(report_chat="9912", report_at="00:00", heartbeat_url=service.url)
        with closing(DayMemory(settings, nullcontext)) as day:
            day.remembering.add("9912", MemoryType.FACT, "Ann lives in Lisbon", now=time.time())
            for now in (time.time(), time.time() + 600):
                for tell in part_of(settings, day).tells().values():
                    tell(Setup(settings, client, partial(float, now)))
            asyncio.run(noted(guarded.urls["dispatcher"]))
        assert service.asked == ["/fail"]
    names = [one["id"].split("-")[0] for one in outbox(admin)]
    assert sorted(names) == ["alarm", "digest", "report"]


async def noted(url: str) -> None:
    client = open_async_redis(url)
    await note_outcome(client, failed=True)
    await note_outcome(client, failed=False)
    await client.aclose()
