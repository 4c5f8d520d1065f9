"""A night that never came is noticed by day: in the dispatcher's log where there is no chat to tell, in `hmem status`, by `hmem doctor`."""

from __future__ import annotations

import json
import time

from structlog.testing import capture_logs

from dispatcher.features.digest.alarms import send_alarms
from dispatcher.features.digest.tests.looking import HOUR, failed_night, good_night, ran_since
from dispatcher.health.findings import Setup
from shared.release.retention import write_pin
from tests.support.world import World


def pin(world: World, hours_ago: float) -> None:
    world.memory_dir.mkdir(exist_ok=True)
    write_pin(world.memory_dir, 5)
    path = world.memory_dir / "pinned"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"since": time.time() - hours_ago * HOUR}))


def test_without_a_chat_to_tell_each_alarm_is_a_line_of_the_log(light: World) -> None:
    ran_since(light.root / "state")
    good_night(light.redis, time.time() - 60 * HOUR)
    settings = light.settings()
    now = time.time()

    def logged(hours: float) -> list[str]:
        with capture_logs() as lines:
            send_alarms(Setup(settings, light.redis, lambda: now + hours * HOUR))
        return [line["event"] for line in lines if line["log_level"] == "error" and "Alarm: Redis" not in line["event"]]

    (said,) = logged(0)
    assert said.startswith("Alarm: no good night came by")
    assert "hmem-night run" in said
    assert logged(1) == []
    pin(light, 40)
    assert "release 5 has been pinned for" in logged(2)[0].lower()
    assert light.redis.llen("hcli:mem:outbox:main") == 0


def test_status_shows_pin_and_failure(light: World) -> None:
    good_night(light.redis, time.time() - 10 * HOUR)
    failed_night(light.redis, time.time() - 2.1 * HOUR)
    pin(light, 3)
    done = light.status()
    rows = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert rows["last failure"].strip() == "night 8 stopped at embed, 2.1 hours ago: Ollama does not answer. Start it."
    assert rows["pin"].strip().startswith("pinned at 5 since 20")
    assert rows["pin"].endswith("hmem release rollback --unpin")
    found = json.loads(light.status("--json").stdout)
    assert (found["pin"]["run"], found["last_failure"]["step"], found["errors"]) == (5, "embed", [])
    pin(light, 40)
    good_night(light.redis, time.time() - HOUR)
    done = light.status(check=False)
    assert (done.returncode, "last failure" in done.stdout) == (21, False)
    assert "pinned for 40 hours" in done.stderr
    assert "hmem release rollback --unpin" in done.stderr
