"""What `scripts/setup` leaves running of the packages that it installs, with stand-ins for apt and systemd."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.processes.installing import path_without, script
from tests.support.world import REPOSITORY


class Host:
    """Without redis-server on PATH. apt installs it with its service, which runs from then on."""

    def __init__(self, root: Path) -> None:
        self.checkout, self.units, self.calls = root / "checkout", root / "units", root / "calls"
        for place in (self.checkout / "scripts", self.checkout / ".venv" / "bin", self.units):
            place.mkdir(parents=True)
        shutil.copy(REPOSITORY / "scripts" / "setup", self.checkout / "scripts")
        script(self.checkout / ".venv" / "bin", "python", ["exit 0"])
        self.path = path_without(root / "bin", "redis-server", "apt-get", "systemctl", "sudo")
        redis = f"{root}/bin/redis-server"
        installed = [f"echo 'echo v=7.0.15' >{redis}; chmod +x {redis}", f"touch {self.units}/redis-server.service"]
        script(root / "bin", "apt-get", [*installed, f'echo "apt-get $*" >>{self.calls}'])
        script(root / "bin", "sudo", ['exec "$@"'])

    def with_systemd(self) -> None:
        listed = f'[ "$1" != list-unit-files ] || exec ls -1 {self.units}'
        script(Path(self.path), "systemctl", [listed, f'echo "systemctl $*" >>{self.calls}'])

    def set_up(self) -> str:
        """Up to the Python packages, which this checkout has no list of."""
        done = subprocess.run(
            [self.checkout / "scripts" / "setup"], env={"PATH": self.path}, capture_output=True, text=True, check=False
        )
        assert "pyproject.toml: No such file" in done.stderr, done.stderr
        return done.stderr

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_redis_that_it_installs_does_not_stay_running(host: Host) -> None:
    host.with_systemd()
    said = host.set_up()
    assert host.called() == ["apt-get install -y -qq redis-server", "systemctl disable --now redis-server.service"]
    assert "sudo systemctl enable --now redis-server.service" in said
    host.set_up()
    assert len(host.called()) == 2, "whoever has enabled it since then keeps it"


def test_a_redis_that_somebody_set_up_before_is_not_stopped(host: Host) -> None:
    """Whose program is in a place of its own."""
    host.with_systemd()
    (host.units / "redis-server.service").touch()
    assert "not running" not in host.set_up()
    assert host.called() == ["apt-get install -y -qq redis-server"]
