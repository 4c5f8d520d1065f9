"""`hmem init --undo` alone: what it says of the conversations that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.installation.init.undo import undo
from tests.support.processes.installing import ScriptedTerminal, installation_in, path_without


def test_the_mirror_is_named_as_a_place_of_conversations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path_without(tmp_path / "bin", "crontab", "systemctl"))
    terminal = ScriptedTerminal("yes")
    installation = installation_in(tmp_path / "host", terminal)
    mirror, layout = tmp_path / "second" / "hmem-archive", installation.layout
    for directory in (layout.night, mirror):
        installation.make_directory(directory, 0o700)
        (directory / "segment").write_text("what was said")
    layout.settings_file.write_text(f'# Written by hmem init\nARCHIVE_MIRROR = "{mirror}"\n')
    monkeypatch.setattr("dispatcher.installation.init.undo.lingers", lambda: True)
    assert undo(installation) == 0
    assert "loginctl disable-linger" in terminal.text
    assert (mirror / "segment").exists()
    assert not layout.settings_file.exists()
    for place in (layout.night, mirror):
        said = [line for line in terminal.text.splitlines() if str(place) in line]
        assert len(said) == 2, "before and after"
