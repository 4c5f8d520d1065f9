"""What `hmem init` does on a terminal that root uses, or sudo: the login of the Claude CLI in another account, and passwords."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.installation.init import claude_cli, host
from tests.support.processes.installing import ScriptedTerminal, installation_in, script
from tests.support.world import REPOSITORY

ACCOUNT = "nobody"


def log_in(root: Path, cli: Path) -> None:
    """In a process on a terminal: answer the question for the login with Enter."""
    made = installation_in(root, ScriptedTerminal("with my account"), {"CLAUDE_BIN": str(cli)})
    made.layout = replace(made.layout, day_user=ACCOUNT, home=root / "home")
    claude_cli._ask_for_login(made)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that other accounts can enter, as they cannot those of pytest."""
    with tempfile.TemporaryDirectory(prefix="hmem-login-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has other accounts")
def test_another_account_logs_in_on_a_terminal_of_its_own(folder: Path) -> None:
    if shutil.which("script") is None:
        pytest.fail("script is not installed (apt-get install bsdutils): it gives this test a terminal.")
    cli = script(
        folder / "cli", "claude", ['echo "as $(id -un) in $HOME on $(tty): $*, key ${ANTHROPIC_API_KEY:-none}"']
    )
    code = (
        "import os, pathlib, sys\n"
        "from tests.dispatcher.installation.test_login import log_in\n"
        "print('terminal', os.ttyname(0), flush=True)\n"
        f"log_in(pathlib.Path({str(folder)!r}), pathlib.Path({str(cli)!r}))\n"
    )
    (folder / "try.py").write_text(code)
    done = subprocess.run(
        ["script", "-qec", f"{sys.executable} {folder / 'try.py'}", "/dev/null"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "ANTHROPIC_API_KEY": "not for it"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    lines = [line.strip("\0^@D\b ") for line in done.stdout.splitlines()]
    ours = next(line.split()[1] for line in lines if line.startswith("terminal "))
    said = next(line for line in lines if line.startswith("as "))
    assert said.startswith(f"as {ACCOUNT} in {folder}/home on /dev/pts/"), said
    assert said.endswith(": auth login, key none"), said
    assert f" on {ours}:" not in said, said


@pytest.mark.parametrize("unattended", [False, True])
def test_sudo_asks_for_its_password_before_a_step_shows_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, unattended: bool
) -> None:
    log = tmp_path / "calls"
    programs = script(tmp_path / "bin", "sudo", [f'echo "$@" >>{log}']).parent
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(programs))
    made = installation_in(tmp_path, ScriptedTerminal(unattended=unattended))
    assert host._as_root(made) == ["sudo", "--non-interactive"]
    assert log.exists() is not unattended, "with --yes nobody is asked"
    monkeypatch.setenv("PATH", "")
    assert host._as_root(made) is None
