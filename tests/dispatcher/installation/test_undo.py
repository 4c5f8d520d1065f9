"""`hmem init --undo` alone: the login that it removes, and what it says of the conversations that it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatcher.installation.init import claude_cli
from dispatcher.installation.init.undo import undo
from tests.support.processes.installing import ScriptedTerminal, installation_in


def test_the_key_goes_that_was_given_and_the_owners_variables_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    made = installation_in(tmp_path, ScriptedTerminal())
    file = made.layout.home / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"model": "opus", "env": {"ANTHROPIC_AUTH_TOKEN": "the owner\'s"}}')
    before = json.loads(file.read_text())
    for secret in ("first", "second"):
        claude_cli._save(made, {"ANTHROPIC_API_KEY": secret})
    claude_cli._save(made, {"ANTHROPIC_AUTH_TOKEN": "the owner's"})
    assert json.loads(file.read_text())["env"]["ANTHROPIC_API_KEY"] == "second"
    assert claude_cli.take_out_login(made.layout.home) == (file, ["ANTHROPIC_API_KEY"], ["ANTHROPIC_AUTH_TOKEN"])
    assert json.loads(file.read_text()) == before


def test_a_directory_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    installation = installation_in(tmp_path / "host", ScriptedTerminal())
    (there := tmp_path / "mine").mkdir(mode=0o750)
    for installation.fresh in (True, False):
        assert not installation.make_directory(there, 0o700)
    assert there.stat().st_mode & 0o777 == 0o750
    assert installation.make_directory(tmp_path / "new", 0o700)


def test_the_mirror_is_named_as_a_place_of_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no systemctl there
    terminal = ScriptedTerminal("yes")
    installation = installation_in(tmp_path / "host", terminal)
    mirror, layout = tmp_path / "second" / "hmem-archive", installation.layout
    for directory in (layout.night, mirror):
        installation.make_directory(directory, 0o700)
        (directory / "segment").write_text("what was said")
    layout.settings_file.write_text(f'# Written by hmem init\nARCHIVE_MIRROR = "{mirror}"\n')
    monkeypatch.setattr("dispatcher.installation.init.undo.lingers", lambda: True)
    assert undo(installation) == 0
    assert "night          not checked" in terminal.text
    assert "loginctl disable-linger" in terminal.text
    assert (mirror / "segment").exists()
    assert not layout.settings_file.exists()
    for place in (layout.night, mirror):
        said = [line for line in terminal.text.splitlines() if str(place) in line]
        assert len(said) == 2, "before and after"
