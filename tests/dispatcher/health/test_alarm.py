"""A night that never came is noticed by day: in the dispatcher's log where there is no chat to tell, in `hmem status`, by `hmem doctor`."""

from __future__ import annotations

import json
import os
import time

import pytest
from redis import Redis
from structlog.testing import capture_logs

from dispatcher.health.notices.watch import FIRST_RUN, NoticeWatch, first_run
from dispatcher.memory.day.memory import DayMemory
from shared.release.retention import write_pin
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


# ------------------------------------------------------------------------------------------------------------- the log


def test_without_a_chat_to_tell_each_alarm_is_a_line_of_the_log_once_a_day(light: World) -> None:
    (light.root / "state").mkdir()
    (light.root / "state" / FIRST_RUN).write_text("0")
    good_night(light.redis, 60)
    settings = light.settings()
    watch = NoticeWatch(settings, DayMemory(settings, lambda: None), lambda: None)  # type: ignore[arg-type, return-value]
    now = time.time()

    def logged(hours: float) -> list[str]:
        with capture_logs() as lines:
            watch.tell_owner(light.redis, now + hours * HOUR)
        return [line["event"] for line in lines if line["log_level"] == "error" and "Alarm: Redis" not in line["event"]]

    (said,) = logged(0)
    assert said.startswith("Alarm: no good night came by")
    assert "hmem-night run" in said
    assert logged(1) == []
    failed_night(light.redis, 1)
    assert "night 8 stopped at embed" in logged(2)[0], "another cause is told at once"
    pin(light, 40)
    assert "release 5 has been pinned for" in logged(3)[0].lower()
    assert len(logged(25)) == 1
    good_night(light.redis, -48)
    (light.memory_dir / "pinned").unlink()
    assert logged(48) == []
    assert light.redis.llen("hcli:mem:outbox") == 0


def test_the_first_start_counts_also_for_later_dispatchers(light: World) -> None:
    state = light.root / "state"
    assert first_run(state, 5.0) == 5.0
    assert first_run(state, 9.0) == 5.0
    mark = state / FIRST_RUN
    mark.write_text("not a number")
    os.utime(mark, (7.0, 7.0))
    assert first_run(state, 9.0) == 7.0, "a damaged mark still has its age"


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
