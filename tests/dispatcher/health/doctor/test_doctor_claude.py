"""What `hmem doctor` finds of the real Claude CLI."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from dispatcher.health.checks import claude
from dispatcher.health.findings import Fault
from shared.config.packages import TESTED_CLAUDE
from tests.support.day.health import ask, expect, looks
from tests.support.machine import script
from tests.support.world import REPOSITORY, World


def test_a_claude_that_does_not_start(host: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = str(script(tmp_path / "broken", "#!/bin/sh\necho 'node: not found' >&2; exit 127\n"))
    expect(host, "claude", 12, "does not print a version.*node: not found", "Install it again", CLAUDE_BIN=broken)
    host.environment["CLAUDE_BIN"] = str(script(tmp_path / "slow", "#!/bin/sh\nsleep 60 & wait\n"))
    monkeypatch.setattr(claude, "ANSWER_SECONDS", 0.2)
    slow = looks(host, "claude")
    assert slow.code == 12
    assert "did not end within 0.2 s" in slow.sentence


def test_the_tested_claude_is_the_one_that_is_installed() -> None:
    assert f"claude_version={TESTED_CLAUDE}\n" in (REPOSITORY / "scripts" / "setup").read_text()


@pytest.mark.slow
def test_a_claude_that_nobody_logged_in_and_that_calls_nobody(host: World, tmp_path: Path) -> None:
    """The real CLI with an empty HOME. At its start it would open connections to the API, or to a proxy, unasked."""
    home = tmp_path / "home"
    home.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = f"http://127.0.0.1:{listener.getsockname()[1]}"
        addresses = {"ANTHROPIC_BASE_URL": there, "HTTPS_PROXY": there, "HTTP_PROXY": there, "NO_PROXY": "127.0.0.1"}
        expect(
            host, "login", Fault.CLAUDE_LOGIN, f"not logged in .*HOME is {home}, so it cannot answer", "log in",
            ANTHROPIC_API_KEY="", HOME=str(home), **addresses,
        )  # fmt: skip
        assert ask(host, HOME=str(home), **addresses)[1]["login"].state == "ok", "a key in the environment counts"
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
