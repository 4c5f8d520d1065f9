"""What `hmem init` installs with apt, and what of it stays running; with stand-ins for apt and systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatcher.installation.init import host
from dispatcher.installation.init.in_progress import InstallationInProgress
from tests.support.processes.installing import ScriptedTerminal, installation_in, script


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallationInProgress:
    """On a host with systemd, apt and sudo, and without redis-server."""
    path, calls, units = tmp_path / "bin", tmp_path / "calls", tmp_path / "units"
    units.mkdir()
    script(path, "apt-get", [f'echo "apt-get $*" >>{calls}', f": >{units}/redis-server.service"])
    lines = [f'[ "$1" != list-unit-files ] || exec /bin/ls -1 {units}', f'echo "systemctl $*" >>{calls}']
    script(path, "systemctl", lines)
    script(path, "sudo", ['[ "$1" = --non-interactive ] && shift', 'exec "$@"'])
    script(path, "rsync", [])
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(host, "systemd_runs", lambda: True)
    monkeypatch.setattr(host, "_lists_are_there", lambda: True)
    return installation_in(tmp_path / "host", ScriptedTerminal(unattended=True))


@pytest.mark.parametrize("somebodys", [False, True])
def test_debians_redis_does_not_stay_running_unless_somebody_had_one(
    installation: InstallationInProgress, tmp_path: Path, *, somebodys: bool
) -> None:
    if somebodys:  # whose program is in a place of its own
        (tmp_path / "units" / "redis-server.service").touch()
    assert host.install_packages(installation) == "installed redis-server"
    installed = "apt-get install -y --no-install-recommends redis-server"
    stopped = [] if somebodys else ["systemctl disable --now redis-server.service"]
    assert (tmp_path / "calls").read_text().splitlines() == [installed, *stopped]
