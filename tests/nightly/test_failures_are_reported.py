"""A night that fails says so: an exit code, a structured line with run and step, a record for the owner and for the day; and it cannot hang."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nightly.night.failure import FAILED
from nightly.night.folder import Night
from nightly.steps import chunk
from shared.errors import LeaseLost, ReleaseRefused, SettingsError, StepTimeout
from shared.release.retention import write_pin
from shared.system.command import translate
from tests.support.machine import slowness, until_gone
from tests.support.night.mirrors import damage
from tests.support.night.steps import replace_step
from tests.support.world import BINARIES, REPOSITORY, World


def test_a_night_without_address_space_says_so_before_it_begins(light: World) -> None:
    command = ["bash", "-c", f"ulimit -v 400000; exec {BINARIES}/hmem-night run"]
    done = subprocess.run(
        command, env=light.variables(PYTHONPATH=str(REPOSITORY)), capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (SettingsError.exit_code, False)
    assert "may have 390 MB of address space, and the libraries of a night need 1024 MB" in done.stderr


@pytest.mark.slow
def test_a_step_that_hangs_ends_the_night_and_the_next_one_goes_on(light: World, tmp_path: Path) -> None:
    """rsync hangs, as on a dead network mount."""
    (tmp_path / "bin").mkdir()
    shim = tmp_path / "bin" / "rsync"
    shim.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 900\n")
    shim.chmod(0o755)
    light.say("t1", "something")
    path = f"{tmp_path}/bin:{light.variables()['PATH']}"
    seconds = f"{5 * slowness():.0f}"
    done = light.command("hmem-night", "run", check=False, STEP_TIMEOUT=seconds, PATH=path)
    assert done.returncode == StepTimeout.exit_code, done.stderr
    assert f"Step publish took longer than {seconds} s (STEP_TIMEOUT)" in done.stderr
    until_gone(int((tmp_path / "pid").read_text()))
    assert light.redis.exists("hcli:memory:t1:user")
    light.night()
    assert light.redis.keys("hcli:memory:*") == []


@pytest.mark.slow
def test_what_cannot_be_interrupted_is_ended_all_the_same(light: World) -> None:
    """A handler of Python's runs between two instructions; a library that hangs gives it no chance: blocked signals stand for that."""
    script = (
        "import signal, time\nfrom nightly.night import time_limit as limit\nlimit.GRACE_SECONDS = 0.3\n"
        "with limit.time_limit('build', 0.2):\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n    time.sleep(600)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, "Step build took longer" in done.stderr) == (StepTimeout.exit_code, True)


@pytest.mark.slow
def test_a_failed_night_is_recorded_for_the_owner_and_for_the_day(light: World) -> None:
    light.say("t1", "something")
    done = light.command(
        "hmem-night",
        "run",
        check=False,
        LOG_JSON="1",
        EMBEDDER="ollama",
        NIGHT_INDEXES="sqlite",
        OLLAMA_URL="http://127.0.0.1:1",
    )
    assert done.returncode == 13
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    (failed,) = [line for line in lines if line["event"] == "night failed"]
    assert (failed["run"], failed["step"], failed["error"], failed["exit_code"]) == (1, "embed", "OllamaError", 13)
    assert [line["step"] for line in lines if line["event"] == "step done"] == [
        "export",
        "archive",
        "chunk",
        "note",
        "dream",
    ]
    record = json.loads((light.night_dir / "nights" / "1" / FAILED).read_text())
    assert record == json.loads(light.redis.get("hcli:mem:night:failed") or "")
    assert (record["step"], record["exit_code"]) == ("embed", 13)
    assert "127.0.0.1:1" in record["sentence"]
    light.night()
    assert not light.redis.exists("hcli:mem:night:failed"), "a good night has come"
    assert (light.night_dir / "nights" / "1" / FAILED).exists(), "what had happened stays told"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("index", "file"),
    [("sqlite", "vectors/1.sqlite"), ("sqlite", "lexical/1.sqlite"), ("chroma", "chroma/chroma.sqlite3")],
)
def test_an_index_that_changed_after_its_proof_is_not_sealed(world: World, index: str, file: str) -> None:
    """Found by scripts/chaos: the same damaged build was brought to the day host, and refused, night after night."""
    world.environment["NIGHT_INDEXES"] = index
    world.say("t1", "something")
    assert world.command("hmem-night", "run", check=False, HMEM_CRASH_AT="build:after-commit").returncode < 0
    damage(world.night_dir / "nights" / "1" / "build" / file)
    with pytest.raises(ReleaseRefused, match="was changed after it was built"):
        world.night()
    assert world.redis.exists("hcli:memory:t1:user")
    world.night()
    assert not world.redis.exists("hcli:memory:t1:user"), "it was made anew, else it would be refused for ever"


def test_a_stale_night_says_nothing_over_the_night_that_took_over(
    light: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    light.say("t1", "something")
    real = chunk.run

    def overtaken(night: Night, out: Path) -> dict[str, Any]:
        light.redis.set("hcli:mem:night:owner", "999 another host /night 1")
        return real(night, out)

    replace_step(monkeypatch, "chunk", overtaken)
    with pytest.raises(LeaseLost):
        light.night()
    assert (light.night_dir / "nights" / "1" / FAILED).exists()
    assert not light.redis.exists("hcli:mem:night:failed")
    assert not light.redis.exists("hcli:mem:night:report")


@pytest.mark.slow
def test_a_pinned_release_stays_and_nothing_is_deleted(light: World) -> None:
    light.say("t1", "one")
    light.night()
    write_pin(light.memory_dir, 1)
    light.say("t2", "two")
    (summary,) = light.night()
    assert (summary["pinned"], summary["deleted"], summary["unproven"]) == (1, 0, 1)
    assert (light.memory_dir / "current").readlink().name == "1"
    assert (light.memory_dir / "releases" / "2").is_dir(), "published beside"
    assert light.redis.exists("hcli:memory:t2:user")
    (light.memory_dir / "pinned").unlink()
    (summary,) = light.night()
    assert (summary["pinned"], summary["deleted"]) == (None, 1)
    assert (light.memory_dir / "current").readlink().name == "3"


@pytest.mark.parametrize(
    ("module", "extra"), [("aiogram.types", "telegram"), ("mcp", "mcp"), ("prometheus_client", "metrics")]
)
def test_a_package_that_this_host_lacks_is_said_with_its_extra(module: str, extra: str) -> None:
    ours = translate(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert isinstance(ours, SettingsError)
    assert f"scripts/setup --with {extra}" in str(ours)
    assert translate(ModuleNotFoundError("No module named 'dispatcher.nothing'", name="dispatcher.nothing")) is None
