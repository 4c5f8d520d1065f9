"""Three users: what bot, dispatcher, night and the CLI's child can read of each other, tried by real processes without any right of root's."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import wait_for
from tests.support.processes.as_user import command
from tests.support.users import DAY, NIGHT, SPY, Installation
from tests.support.world import BINARIES, REPOSITORY

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="starting processes as other users needs root")

#: What of a process's own is worth reading.
OF_A_PROCESS = {"environ", "memory", "descriptors", "standard input", "root", "directory"}


def ask(world: Installation) -> dict[str, Any]:
    """One answer of the spying CLI; what it reports."""
    world.as_root(str(BINARIES / "hmem"), "talk", "9912", "--say", "hello", "--timeout", "60")
    found: dict[str, Any] = json.loads((world.root / "home" / "report.json").read_text())
    return found


def sleeps(process: int) -> bool:
    """Whether it has become the command that it is to run."""
    return Path(f"/proc/{process}/comm").read_text() == "sleep\n"


def looked_at(process: int, uid: int) -> dict[str, str]:
    """What a process of that user, started elsewhere, gets of another one."""
    done = subprocess.run(
        command(uid, (uid,), str(SPY), str(process)), cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)["got"]
    return {name.partition(" ")[2]: what for name, what in found.items()}


def test_the_spy_sees_what_is_not_closed() -> None:
    """Else the tests below would prove nothing."""
    with subprocess.Popen(
        command(DAY, (DAY,), "/bin/sleep", "60"), env=os.environ | {"KEY": "s3cret"}, cwd=REPOSITORY
    ) as open_one:
        wait_for(partial(sleeps, open_one.pid), "the process")
        found = looked_at(open_one.pid, DAY)
        open_one.kill()
    assert set(found) >= OF_A_PROCESS - {"standard input"}
    assert "s3cret" in found["environ"] or len(found["environ"]) == 200


@pytest.mark.slow
def test_the_cli_reads_nothing_of_its_parent_nor_of_memory(here: Installation) -> None:
    places = [here.secrets("dispatcher"), here.root / "secrets", here.root / "memory", here.root / "night"]
    places += [here.root / "state" / name for name in ("day-store.sqlite", "prompts", "chats", "")]
    (here.root / "home" / "spy.json").write_text(json.dumps([*map(str, places), str(here.root / "hmem.toml")]))
    here.environment = {"MEMORY_MCP": "read", "ANTHROPIC_API_KEY": "the-login"}
    with here.dispatcher() as process:
        told = ask(here)
    assert f"{process.pid} environ" in told["tried"]
    assert told["got"] == {}
    everything = json.dumps(told)
    for secret in ("the-hmac-key-of-three-users", here.url):
        assert secret not in everything
    assert told["environment"]["ANTHROPIC_API_KEY"] == "the-login"
    assert "HMEM_CREDENTIALS" not in told["environment"]
    assert set(told["open"]) <= {"0", "1", "2", "3"}, "its own three, and the one that lists them"


@pytest.mark.slow
def test_a_service_is_closed_to_others_of_its_user_too(here: Installation) -> None:
    """Without Landlock, and not only to children: PR_SET_DUMPABLE."""
    with here.dispatcher() as process:
        assert looked_at(process.pid, DAY) == {}


def test_dispatcher_and_night_cannot_look_into_each_other(here: Installation) -> None:
    for uid, other in ((DAY, NIGHT), (NIGHT, DAY)):
        script = f"cat /proc/self/status >/dev/null; ls {here.root}/night {here.root}/state {here.root}/home; id -u"
        seen = subprocess.run(
            command(uid, (uid,), "/bin/sh", "-c", script), cwd=REPOSITORY, capture_output=True, text=True, check=False
        )
        assert seen.stdout.splitlines()[-1] == str(uid)
        assert seen.stderr.count("Permission denied") == (1 if uid == DAY else 2)
        with subprocess.Popen(command(other, (other,), "/bin/sleep", "60"), cwd=REPOSITORY) as process:
            wait_for(partial(sleeps, process.pid), "the process")
            assert not set(looked_at(process.pid, uid)) & OF_A_PROCESS
            process.kill()


@pytest.mark.slow
def test_root_leaves_no_file_of_its_own_in_the_services_directories(here: Installation) -> None:
    hmem, hmem_night = str(BINARIES / "hmem"), str(BINARIES / "hmem-night")
    for number in (1, 2):
        here.say(f"t{number}", f"The boiler code is 471{number}.")
        here.night_by_root()
    here.as_root(hmem, "memory", "add", "9912", "likes tea")
    assert "4711" in here.as_root(hmem, "search", "9912", "code of the boiler").stdout
    assert here.as_root(hmem, "status", check=False).returncode == 42, "no dispatcher runs here"
    here.as_root(hmem, "release", "rollback", "--yes")
    here.as_root(hmem, "release", "rollback", "--unpin")
    here.as_root(hmem_night, "verify", part="night")
    assert here.foreign_files() == []
    assert {path.stat().st_uid for path in (here.root / "memory").rglob("*")} == {NIGHT}
    assert {path.stat().st_uid for path in (here.root / "state").rglob("*")} == {DAY}


@pytest.mark.slow
def test_forgetting_as_root_runs_the_night_as_the_nights_user(here: Installation) -> None:
    here.say("t1", "The word for the boiler is quagga-lantern.")
    here.night_by_root()
    hmem, forget = str(BINARIES / "hmem"), ("forget", "--matching", "quagga-lantern", "--yes")
    assert "run hmem owner-key once, as root" in here.as_root(hmem, *forget, check=False).stdout
    assert "OWNER_PUBLIC_KEY" in here.as_root(hmem, "owner-key").stdout
    assert (here.root / "roots-home" / ".config" / "hmem" / "owner.key").stat().st_uid == 0
    done = here.as_root(hmem, "forget", "--resume", "--yes")
    assert "complete" in done.stdout
    assert here.foreign_files() == []
    assert not [path for path in here.root.rglob("*") if path.is_file() and b"quagga-lantern" in path.read_bytes()]


@pytest.mark.slow
def test_forgetting_as_the_dispatchers_user_leaves_the_archive_to_the_night(here: Installation) -> None:
    here.say("t1", "The boiler code is 4711.")
    here.night_by_root()
    with ExitStack() as stack:
        secrets = stack.enter_context(here.secrets("owner").open("rb"))
        done = subprocess.run(
            command(DAY, (DAY,), str(BINARIES / "hmem"), "forget", "--turn", "t1", "--chat", "9912", "--yes"),
            env=here.plain(HMEM_CREDENTIALS="fd:0"), stdin=secrets, cwd=REPOSITORY, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 28, done.stdout + done.stderr
    assert "the night would only hide the turns; run hmem forget --resume as the user who has that key" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_backfill_by_root_reads_the_standard_input_that_only_root_may_open(here: Installation) -> None:
    turns = here.root / "roots-home" / "turns.jsonl"
    key = here.say("t1", "The boiler code is 4711.")
    said = here.redis.get(key)
    assert isinstance(said, bytes)
    turns.write_bytes(said)
    here.redis.delete(key)
    turns.chmod(0o600)
    with turns.open("rb") as given:
        done = subprocess.run(
            command(0, (0,), str(BINARIES / "hmem-night"), "backfill", "jsonl", "-"), stdin=given, cwd=REPOSITORY,
            env=here.plain(HMEM_CREDENTIALS=str(here.secrets("night")), HOME=str(turns.parent)), capture_output=True, text=True,
            check=False, timeout=600,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4711" in here.as_root(str(BINARIES / "hmem-night"), "turns", part="night").stdout
    assert here.foreign_files() == []
