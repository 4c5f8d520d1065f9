"""What is pruned of the releases and what never is: real nights, real dispatchers."""

from __future__ import annotations

import json
import signal

import pytest

from shared.release import retention
from shared.release.retention import release_runs
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.system.files import locked_dir
from tests.support.day.releases import nights
from tests.support.machine import wait_for
from tests.support.world import World


@pytest.mark.slow
def test_prune_keeps_what_is_needed_and_says_why(light: World) -> None:
    nights(light, 5)
    retention.write_pin(light.memory_dir, 1)
    (light.memory_dir / "releases" / "3" / "manifest.json").write_text("{")
    leftover = light.memory_dir / "releases" / ".0.cut.gone"
    leftover.mkdir()
    opened = OpenRelease(light.settings(), light.memory_dir / "releases" / "2")
    record = json.loads(light.command("hmem", "release", "prune", "--keep", "1", "--json").stdout)
    assert record["removed"] == [3]
    assert {one["run"]: one["why"] for one in record["kept"]} == {
        1: ["pinned"], 2: ["in use"], 4: ["previous"], 5: ["current", "newest"],
    }  # fmt: skip
    assert not leftover.exists()
    assert [hit.chunk.chunk_id for hit in opened.recall(Query("9912", "note 1", 1)).hits] == ["t1:user#1"]
    opened.close()
    said = light.command("hmem", "release", "prune", "--keep", "1").stdout
    assert said.startswith("Removed: 2.")
    assert "4 stays: previous" in said


def test_the_release_that_a_dispatcher_serves_is_not_pruned(light: World) -> None:
    nights(light, 1)
    running = light.start_dispatcher(HMEM_MEMORY_DIR=str(light.memory_dir))
    wait_for(lambda: light.redis.hvals("hcli:mem:release") == [b"1"], "release 1 to be served")
    assert retention.in_use(light.memory_dir / "releases" / "1")
    assert not retention.remove_release(light.memory_dir / "releases" / "1")
    running.stop(signal.SIGKILL)
    assert not retention.in_use(light.memory_dir / "releases" / "1"), "the kernel frees it"


@pytest.mark.slow
@pytest.mark.parametrize("what", ["current", "manifest", "pin"])
def test_nothing_is_pruned_while_nobody_can_tell_what_is_needed(light: World, what: str) -> None:
    nights(light, 4)
    place = {"current": "current", "manifest": "releases/4/manifest.json", "pin": "pinned"}[what]
    (light.memory_dir / place).unlink(missing_ok=True)
    if what != "current":
        (light.memory_dir / place).write_text("{")
    with locked_dir(light.memory_dir):
        assert retention.prune(light.memory_dir, 1, coming=9) == []
    assert release_runs(light.memory_dir) == [1, 2, 3, 4]
