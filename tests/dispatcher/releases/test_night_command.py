"""How the day reads what the night's commands print: whole lines, and no longer than the limit."""

from __future__ import annotations

import sys

import pytest

from dispatcher.releases import night_command
from dispatcher.releases.night_command import NightCommandFailed, read_lines
from shared.config.settings import load_settings


def printing(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """From now on the night's command is this Python code."""
    monkeypatch.setattr(night_command, "module_command", lambda *_: [sys.executable, "-c", body])


def test_a_failure_is_the_last_line_that_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    printing(monkeypatch, "print('one', flush=True); raise SystemExit('the archive is damaged')")
    lines = read_lines(load_settings(), "turns", ours=True)
    assert next(lines) == b"one\n"
    with pytest.raises(NightCommandFailed, match="hmem-night turns ended with exit code 1: the archive is damaged"):
        next(lines)
