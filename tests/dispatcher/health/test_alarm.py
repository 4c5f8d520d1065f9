"""A night that never came is noticed by day: in the dispatcher's log, in `hmem status`, by `hmem doctor`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from dispatcher.health import stale_alarm
from dispatcher.health.stale_alarm import FIRST_RUN, Alarm
from shared.release.retention import write_pin
from shared.wire.client import open_async_redis
from tests.support.day.hcli_bot import Bot
from tests.support.day.health import look
from tests.support.machine import free_port, wait_for
from tests.support.world import World

HOUR = 3600.0


def good_night(redis: Redis, hours_ago: float, run: int = 7) -> None:
    redis.set("hcli:mem:night:last", json.dumps({"run": run, "finished_at": time.time() - hours_ago * HOUR}))


def failed_night(redis: Redis, hours_ago: float, run: int = 8) -> None:
    record = {
        "run": run,
        "step": "embed",
        "error": "EmbeddingError",
        "sentence": "Ollama does not answer. Start it.",
        "exit_code": 13,
        "at": time.time() - hours_ago * HOUR,
    }
    redis.set("hcli:mem:night:failed", json.dumps(record))


def pin(world: World, hours_ago: float) -> None:
    world.memory_dir.mkdir(exist_ok=True)
    write_pin(world.memory_dir, 5)
    path = world.memory_dir / "pinned"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"since": time.time() - hours_ago * HOUR}))


# ------------------------------------------------------------------------------------------------------------- the look


def test_a_night_in_time_is_nothing_to_speak_of(light: World) -> None:
    good_night(light.redis, 35)
    failed_night(light.redis, 1)
    pin(light, 35)
    assert look(light) is None


def test_a_missed_night_is_one_sentence_with_all_that_is_known(light: World) -> None:
    good_night(light.redis, 40)
    why = look(light)
    assert why == (
        "Memory is out of date: the last good night (run 7) is 40 hours old. "
        "Check hmem-night status and its log, then run hmem-night run."
    )
    failed_night(light.redis, 2)
    pin(light, 1)
    why = look(light) or ""
    assert (
        "; night 8 stopped at embed, 2.0 hours ago: Ollama does not answer. Start it; release 5 is pinned since" in why
    )
    failed_night(light.redis, 50)
    assert "stopped" not in (look(light) or ""), "a good night came after it"


def test_without_any_night_the_first_start_counts_also_for_later_dispatchers(light: World) -> None:
    assert look(light) is None
    assert "no night has succeeded since the dispatcher first ran here, 37 hours ago" in (look(light, 37) or "")
    mark = light.root / "state" / FIRST_RUN
    mark.write_text("not a number")
    os.utime(mark, (time.time() - 50 * HOUR,) * 2)
    assert "50 hours ago" in (look(light) or ""), "a damaged mark still has its age"


def test_a_pin_that_was_forgotten_is_a_reason_of_its_own(light: World) -> None:
    good_night(light.redis, 1)
    pin(light, 40)
    assert "release 5 has been pinned for 40 hours" in (look(light) or "")
    (light.memory_dir / "pinned").write_text("{")
    assert "damaged" in (look(light) or "")


@pytest.mark.parametrize("value", ["{", "[]", "null", '{"run": "x"}', '{"run": 1, "finished_at": null, "at": []}'])
def test_what_cannot_be_read_in_redis_is_no_night(light: World, value: str) -> None:
    light.redis.set("hcli:mem:night:last", value)
    light.redis.set("hcli:mem:night:failed", value)
    assert look(light) is None
    assert "no night has succeeded" in (look(light, 40) or "")
    assert light.status().returncode == 0


# ------------------------------------------------------------------------------------------------------- the dispatcher


def impatient(world: World, **more: str) -> subprocess.Popen[bytes]:
    """A dispatcher that looks after a tenth of a second instead of a minute, and often."""
    code = (
        "from dispatcher.cli import main as cli\nfrom dispatcher.health import stale_alarm as alarm\n"
        "alarm.FIRST_SECONDS = alarm.LOOK_SECONDS = 0.1\ncli.main()"
    )
    command = [sys.executable, "-c", code, "run"]
    with (world.root / "log").open("wb") as stream:
        return subprocess.Popen(command, env=world.variables(**more), stdout=stream, stderr=stream)


@pytest.mark.slow
def test_the_dispatcher_says_it_at_error_level_and_answers(light: World) -> None:
    good_night(light.redis, 40)
    running = impatient(light, LOG_JSON="1")
    try:
        log = light.root / "log"
        wait_for(lambda: b"Memory is out of date" in log.read_bytes(), "the alarm")
        assert Bot(light.redis).ask("hello?", 9912)
        good_night(light.redis, 1)
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(600) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    said = [line for line in lines if "out of date" in line["event"]]
    assert {line["level"] for line in said} == {"error"}
    assert "the last good night (run 7) is 40 hours old" in said[0]["event"]


@pytest.mark.slow
def test_a_redis_that_is_away_or_hangs_ends_neither_the_alarm_nor_the_dispatcher(
    light: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FIRST_SECONDS", "LOOK_SECONDS", "CHECK_TIMEOUT_SECONDS"):
        monkeypatch.setattr(stale_alarm, name, 0.05)

    async def watched(client: AsyncRedis, during: Any) -> bool:
        watching = asyncio.create_task(Alarm(light.settings(), client).watch())
        await asyncio.sleep(0.5)
        during()
        await asyncio.sleep(0.5)
        alive = not watching.done()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.aclose()
        return alive

    away = open_async_redis(f"redis://127.0.0.1:{free_port()}/0")
    assert asyncio.run(watched(away, lambda: None))
    assert "cannot check now whether a night was missed" in capsys.readouterr().out

    def hang() -> None:
        good_night(light.redis, 40)
        light.redis.client_pause(300)

    good_night(light.redis, 1)
    monkeypatch.setattr(stale_alarm, "CHECK_TIMEOUT_SECONDS", 0.2)
    assert asyncio.run(watched(open_async_redis(light.url), hang))
    said = capsys.readouterr().out
    assert "no answer" in said
    assert "40 hours old" in said, "it looks again"


# ---------------------------------------------------------------------------------------------------- status and doctor


def test_status_shows_pin_and_failure(light: World) -> None:
    good_night(light.redis, 10)
    failed_night(light.redis, 2.1)
    pin(light, 3)
    done = light.status()
    rows = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert rows["last failure"].strip() == "night 8 stopped at embed, 2.1 hours ago: Ollama does not answer. Start it."
    assert rows["pin"].strip().startswith("pinned at 5 since 20")
    assert rows["pin"].endswith("hmem release unpin")
    found = json.loads(light.status("--json").stdout)
    assert (found["pin"]["run"], found["last_failure"]["step"], found["stale"]) == (5, "embed", None)
    pin(light, 40)
    done = light.status(check=False)
    assert done.returncode == 21
    assert "pinned for 40 hours" in done.stderr
    assert "hmem release unpin" in done.stderr
    good_night(light.redis, 1)
    assert "last failure" not in light.status(check=False).stdout


@pytest.mark.slow
def test_a_real_failure_is_shown_until_a_night_succeeds(light: World) -> None:
    light.say("t1", "something", timestamp=time.time())
    light.command(
        "hmem-night", "run", check=False, EMBEDDER="ollama", NIGHT_INDEXES="sqlite", OLLAMA_URL="http://127.0.0.1:1"
    )
    assert "stopped at embed" in light.status().stdout
    light.night()
    assert "last failure" not in light.status().stdout
