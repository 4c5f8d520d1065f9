"""What `hmem doctor` finds of the real Claude CLI."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from dispatcher.claude.environment import note_token
from dispatcher.health.checks import claude
from dispatcher.health.checks.claude import check_token
from dispatcher.health.findings import Fault, Setup
from tests.support.day.health import ask, expect, looks
from tests.support.machine import script
from tests.support.world import World


def test_a_claude_that_does_not_start(host: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host.environment["CLAUDE_BIN"] = str(
        script(tmp_path / "broken", "#!/bin/sh\necho 'node: not found' >&2; exit 127\n")
    )
    broken = looks(host, "claude")
    assert (broken.code, "does not print a version (node: not found)" in broken.sentence) == (12, True)
    assert broken.fix.startswith("Install it again")
    host.environment["CLAUDE_BIN"] = str(script(tmp_path / "slow", "#!/bin/sh\nsleep 60 & wait\n"))
    monkeypatch.setattr(claude, "ANSWER_SECONDS", 0.2)
    slow = looks(host, "claude")
    assert slow.code == 12
    assert "did not end within 0.2 s" in slow.sentence


def test_a_login_that_the_cli_does_not_use_is_named_with_the_version(host: World, tmp_path: Path) -> None:
    """As of a version whose -p reads no login (--bare): it says that it is logged in, and questions wait."""
    cli = """#!/bin/sh
case "$1" in auth) echo '{"loggedIn": true, "authMethod": "claude.ai"}' ;; *) echo '9.8.7 (Claude Code)' ;; esac
"""
    host.environment["CLAUDE_BIN"] = str(script(tmp_path / "bare", cli))
    assert looks(host, "login").state == "ok"
    hold = {"since": time.time(), "next": time.time() + 60, "why": "I am not logged in, and my owner has to log me in"}
    host.redis.hset("hcli:mem:holds", "", json.dumps(hold))
    found = looks(host, "login")
    assert found.code == Fault.CLAUDE_LOGIN
    assert "The Claude CLI 9.8.7 says that it is logged in (by claude.ai)" in found.sentence
    assert "--bare" in found.sentence
    assert all(way in found.fix for way in ("ANTHROPIC_API_KEY", "claude setup-token", "install"))
    host.redis.hset("hcli:mem:holds", "", json.dumps(hold | {"next": time.time()}))
    assert looks(host, "login").state == "ok", "nothing is held any more"


def test_a_token_of_a_year_is_named_a_month_before_its_end(host: World, tmp_path: Path) -> None:
    began, day = time.time() - 336 * 86_400, 86_400

    def state(token: str, at: float) -> str:
        note_token(tmp_path, {"CLAUDE_CODE_OAUTH_TOKEN": token} if token else {}, at)
        setup = Setup(host.settings(hmem_state_dir=tmp_path), host.redis)
        return check_token(setup).state

    assert state("", began) == "ok"
    assert state("sk-ant-oat-1", began + 7 * day) == "ok"
    assert state("sk-ant-oat-2", began) == "warning"
    assert state("sk-ant-oat-2", began + 300 * day) == "warning", "the same since its first day"
    assert b"oat" not in (tmp_path / "claude-token.json").read_bytes()
    assert state("sk-ant-oat-3", began + 336 * day) == "ok"
    assert state("", began + 336 * day) == "ok"


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
