"""What surrounds a call of the CLI, tried by a process inside it: files that open something, a home with holes, directories that cannot be listed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dispatcher.claude import landlock
from dispatcher.claude.sandbox import _PROBE, Walls
from shared.config.settings import Settings, load_settings
from shared.system.processes import run_bounded
from tests.support.machine import wait_for
from tests.support.processes.as_user import command
from tests.support.world import REPOSITORY, STAND_IN

pytestmark = pytest.mark.skipif(landlock.version() < 2, reason="this kernel has no Landlock")
USER = 31_003
RIGHTS = "NoNewPrivs", "CapEff"


def _confinement() -> dict[str, list[str]]:
    """What each thread of this process may gain and do; one of an earlier test may end while we look."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found[task.name] = [line for line in (task / "status").read_text().splitlines() if line.startswith(RIGHTS)]
    return found


class Home:
    """One user's installation, as the README makes it, outside of /tmp, where nothing can be hidden."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "home"
        self.key = self.home / ".config" / "hmem" / "owner.key"
        for name in ("state/chats/7", "memory", "night", "home/.claude", "home/.config/hmem", "etc"):
            (root / name).mkdir(parents=True)
        for name in "state/day-store.sqlite memory/pinned night/lock etc/hmem.toml etc/secrets.toml etc/x".split():
            (root / name).write_text("")
        for path in (self.key, self.home / ".claude.json", self.home / "notes"):
            path.write_text("s3cret")

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home)}

    def settings(self, **more: Any) -> Settings:
        places = {f"hmem_{name}_dir": self.root / name for name in ("memory", "state", "night")}
        return load_settings(**{**places, "owner_key_file": self.key, "claude_bin": str(STAND_IN), **more})

    def walls(self, **more: Any) -> Walls:
        return Walls(self.settings(**more), self.environment, str(STAND_IN))

    def seen(self, *paths: Path, walls: Walls | None = None) -> list[Path]:
        """Which of them a tool of the CLI can open."""
        missing: list[str] = []
        start = (walls or self.walls()).around([self.root / "state" / "chats" / "7"], missing.append)
        words = [sys.executable, "-I", "-S", "-c", _PROBE, *map(str, paths)]
        done = run_bounded(words, 60, environment=self.environment, start=start)
        assert (done.returncode, done.stderr, missing) == (0, "", [])
        return [Path(path) for path in json.loads(done.stdout)]

    def run(self, script: str) -> int:
        """A tool of the CLI; its exit code."""
        start = self.walls().around([])
        return run_bounded(["/bin/sh", "-c", script], 60, environment=self.environment, start=start).returncode


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    root = Path(tempfile.mkdtemp(prefix="hmem-walls-", dir="/var/tmp"))
    made = Home(root)
    monkeypatch.setenv("HMEM_CONFIG", str(root / "etc" / "hmem.toml"))
    monkeypatch.setenv("HMEM_CREDENTIALS", str(root / "etc" / "secrets.toml"))
    yield made
    shutil.rmtree(root)


def test_tools_of_the_cli_read_no_key_no_settings_and_no_credentials(one: Home) -> None:
    secret = [one.key, one.key.parent, *(one.root / "etc" / name for name in ("hmem.toml", "secrets.toml"))]
    secret += [one.root / name for name in ("state/day-store.sqlite", "memory/pinned", "night/lock")]
    free = [one.home / ".claude", one.home / ".claude.json", one.home / "notes", one.root / "etc" / "x"]
    free += [one.root / "state" / "chats" / "7"]
    secret += [Path(f"/proc/{os.getpid()}/{name}") for name in ("environ", "mem", "maps")]
    assert one.seen(*secret, *free) == free
    assert one.walls().open_because is None
    assert one.walls().found_open() is None


@pytest.mark.parametrize("there", [True, False])
def test_tools_of_the_cli_put_no_other_key_in_its_place(one: Home, *, there: bool) -> None:
    """Nor one where none was made yet: who made it would know it."""
    if not there:
        shutil.rmtree(one.key.parent)
    harm = f"mkdir -p {one.key.parent}; echo mine >{one.key}; rm -rf {one.key}; mv {one.key.parent} {one.home}/away"
    assert one.run(harm) != 0
    assert (one.key.read_text() if there else one.key.exists()) == ("s3cret" if there else False)
    needed = "echo more >>.claude.json && mkdir .claude/projects && echo x >.claude/projects/y"
    assert one.run(f"cd {one.home} && {needed}") == 0


def test_a_key_that_is_a_link_is_hidden_with_what_it_leads_to(one: Home) -> None:
    real = one.home / "keys" / "real.key"
    real.parent.mkdir()
    one.key.rename(real)
    one.key.symlink_to(real)
    assert one.seen(one.key, real) == []
    assert one.run(f"ln -sfn /dev/null {one.key}") != 0
    assert one.key.read_text() == "s3cret"


#: Starts a command as the paths that are its first argument say.
STARTED = """
import json, sys
from dispatcher.claude.landlock import start_inside
sys.exit(start_inside(json.loads(sys.argv[1]), sys.exit, sys.argv[2:]).wait())
"""


def as_user(one: Home, start: Any, *words: str) -> subprocess.CompletedProcess[str]:
    whole = command(USER, (USER,), sys.executable, "-c", STARTED, json.dumps(start.args[0]), *words)
    return subprocess.run(
        whole, env=os.environ | one.environment, cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("closed", ["", "home"])
def test_a_parent_that_cannot_be_listed_breaks_no_answer(one: Home, closed: str) -> None:
    """Mode 0711, as many a /home and /srv have it: what the CLI needs in there it has, and all else in there is hidden."""
    if os.geteuid() != 0:
        pytest.skip("a directory of somebody else needs root")
    for path in [*one.root.rglob("*"), one.root]:
        os.chown(path, USER, USER)
    closed_one = one.root / closed
    os.chown(closed_one, 0, 0)
    closed_one.chmod(0o711)
    secret = [one.key, *(one.root / name for name in ("state/day-store.sqlite", "memory/pinned", "night/lock"))]
    needed = [one.home / ".claude", one.home / ".claude.json", one.root / "state" / "chats" / "7"]
    start = one.walls().around([one.root / "state" / "chats" / "7"])
    done = as_user(one, start, sys.executable, "-I", "-S", "-c", _PROBE, *map(str, [*secret, *needed]))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [str(path) for path in needed]


def test_a_fence_that_cannot_be_had_is_said_and_the_answer_comes(one: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ruleset of a version that the kernel does not know stands for whatever may fail."""
    monkeypatch.setitem(landlock._RIGHTS, 1, (1 << 40) - 1)
    before = set(Path("/proc/self/fd").iterdir())
    with capture_logs() as logged:
        done = run_bounded(["/bin/echo", "answered"], 60, start=one.walls().around([]))
    assert done.stdout == "answered\n"
    assert [line["missing"] for line in logged] == ["the sandbox is incomplete: [Errno 22] Invalid argument"]
    assert set(Path("/proc/self/fd").iterdir()) <= before
    monkeypatch.setattr(landlock, "drop_capabilities", lambda: None)
    found = one.walls().found_open() or ""
    assert str(one.key) in found
    if os.geteuid() == 0:  # the processes of a plain user may be closed to each other in any case
        assert f"/proc/{os.getpid()}/environ" in found
    assert "despite Landlock (the sandbox is incomplete: [Errno 22]" in found


def test_only_the_command_is_confined_and_no_thread_stays_with_it(one: Home) -> None:
    """A thread of ours in the sandbox of the command could be inspected by it, with all that this process has."""
    before = _confinement()
    process = one.walls().around([])(["/bin/cat", "/proc/self/status"], stdout=subprocess.PIPE)
    wait_for(lambda: _confinement().items() <= before.items(), "its thread's end, and no other confined")
    assert {"NoNewPrivs:\t1", "CapEff:\t0000000000000000"} <= set(process.communicate()[0].decode().splitlines())
    assert one.key.read_text() == "s3cret"


@pytest.mark.parametrize("privileged", [True, False])
def test_the_cli_is_ended_before_the_dispatcher_when_memory_runs_out(one: Home, *, privileged: bool) -> None:
    """What the kernel says of the process, which is read when its thread has ended."""
    if not privileged and os.geteuid() != 0:
        pytest.skip("being somebody else needs root")
    score = Path("/proc/self/oom_score_adj")
    ours = int(score.read_text())
    start, words = one.walls().around([]), ("/bin/sh", "-c", f"sleep 0.2; exec cat {score}")
    done = as_user(one, start, *words) if not privileged else run_bounded([*words], 60, start=start)
    assert (done.stdout, done.stderr) == (f"{min(1000, ours + 500)}\n", "")
    assert int(score.read_text()) == ours
