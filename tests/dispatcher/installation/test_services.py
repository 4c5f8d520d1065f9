"""The units that systemd takes, and what systemctl is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dispatcher.installation.layout import of_host, programs_of
from dispatcher.installation.services import systemd
from dispatcher.installation.services.systemd import SystemdServices
from shared.config.settings import Settings, settings_from
from shared.errors import InstallationIncomplete
from tests.support.processes.installing import layout_in, script


def settings_with(**values: str) -> Settings:
    return settings_from({"night_cron": "30 4 * * *", "chat_timezone": "Europe/Berlin", **values})


OWN = {"hmem-redis.service", "hmem-dispatcher.service", "hmem-telegram.service", "hmem-night.service"}
TIMERS = {"hmem-night.timer", "hmem-capture.service", "hmem-capture.timer"}


@pytest.mark.parametrize(("kind", "names"), [("--system", OWN | TIMERS), ("--user", OWN)])
def test_systemd_takes_the_units_of_three_users_and_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, names: set[str]
) -> None:
    """As systemd-analyze takes them; accounts need not exist for that."""
    layout = layout_in(tmp_path) if kind == "--user" else of_host()
    units = SystemdServices(layout, programs_of(layout, own_redis=True), settings_with()).units()
    assert set(units) == names
    (folder := tmp_path / "units").mkdir()
    for name, text in units.items():
        (folder / name).write_text(text)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    analyze = shutil.which("systemd-analyze")
    assert analyze, "systemd-analyze is not installed. Run scripts/setup --dev."
    command = [analyze, "verify", kind, *(str(folder / name) for name in units)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemctl_is_asked_for_what_is_wanted_and_its_refusal_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "calls"
    folder = script(tmp_path / "bin", "systemctl", [f'echo "$@" >>{log}', '[ "$2" != is-active ]']).parent
    script(folder, "loginctl", ["exit 0"])
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    layout = layout_in(tmp_path)
    layout.config.mkdir(parents=True)
    manager = SystemdServices(layout, programs_of(layout, own_redis=False), settings_with())
    assert not manager.is_installed()
    assert manager.install()
    assert not manager.install()
    assert manager.is_installed()
    manager.start(manager.stopped())
    assert "--user enable --now hmem-dispatcher.service" in log.read_text()
    manager.remove()
    assert not list((tmp_path / ".config" / "systemd" / "user").iterdir())
    script(folder, "systemctl", ["echo 'Unit is masked.' >&2", "exit 1"])
    with pytest.raises(
        InstallationIncomplete, match=r"Unit is masked\. The reason is in its log: journalctl --user -u hmem-night"
    ):
        manager.start(["night"])


def test_nothing_of_a_timer_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new installation would make up for nights of the one that was taken out."""
    folder = script(tmp_path / "bin", "systemctl", ["exit 0"]).parent
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    units, stamps = tmp_path / "units", tmp_path / "timers"
    monkeypatch.setattr(systemd, "SYSTEM_UNITS", units)
    monkeypatch.setattr(systemd, "TIMER_STAMPS", stamps)
    stamps.mkdir()
    for name in ("stamp-hmem-night.timer", "stamp-apt-daily.timer"):
        (stamps / name).touch()
    layout = of_host(tmp_path)
    manager = SystemdServices(layout, programs_of(layout, own_redis=True), settings_with())
    manager.install()
    assert (units / "hmem-night.timer").exists()
    manager.remove()
    assert list(units.iterdir()) == []
    assert [one.name for one in stamps.iterdir()] == ["stamp-apt-daily.timer"]
