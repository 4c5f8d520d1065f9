"""Two hosts on this machine: a day host that `hmem init` has set up in one home, and an empty home behind an sshd of its own."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dispatcher.installation.night_host.program import packages_stamp, stage
from dispatcher.installation.night_host.there.bootstrap import PACKAGES_STAMP, STAMP
from tests.support.machine import free_port, wait_for
from tests.support.night.two_hosts import SSHD
from tests.support.processes.installing import NewHome, new_home, path_without, script
from tests.support.world import BINARIES

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_PROGRAMS = {
    "hmem": "dispatcher.cli.main", "hmem-night": "nightly.cli.main",
    "supervisord": "supervisor.supervisord", "supervisorctl": "supervisor.supervisorctl",
}  # fmt: skip


class TwoHomes:
    """`day` is installed; `gpu` is the name of the other home for ssh, others are names for what is wrong."""

    def __init__(self, day: NewHome, night: Path, folder: Path) -> None:
        self.day, self.night, self.folder = day, night, folder
        self.day_port, self.night_port = free_port(), free_port()
        self.program = night / ".local/share/hmem/program"
        self.data = night / ".local/share/hmem"
        self.config = night / ".config/hmem"
        self.night_path = folder / "night-bin"  # before the other programs of the night host
        self.night_path.mkdir()
        self.options = ["--day-address", f"127.0.0.1:{self.day_port}", "--day-host-key", str(folder / "day-host.pub")]

    def variables(self, **more: str) -> dict[str, str]:
        return {**self.day.variables(given=False), "PATH": f"{self.folder}/bin:{BINARIES}:{SYSTEM_PATH}", **more}

    def start(self, *words: str, host: str = "gpu", **more: str) -> subprocess.Popen[str]:
        command = [str(BINARIES / "hmem"), "init", "--user", "--yes", "--night-host", host, *words]
        return subprocess.Popen(
            command, env=self.variables(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )  # fmt: skip

    def init(self, *words: str, host: str = "gpu", **more: str) -> tuple[int, str]:
        """Exit code and output."""
        process = self.start(*words, host=host, **more)
        output, _ = process.communicate(timeout=900)
        return process.returncode, output

    def there(self, *words: str, program: str = "hmem-night") -> subprocess.CompletedProcess[str]:
        """A command on the night host."""
        return subprocess.run(
            [str(self.program / ".venv/bin" / program), *words],
            env={"HOME": str(self.night), "PATH": SYSTEM_PATH}, capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip

    def with_key(self, name: str, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """ssh to the day host with one of the night host's keys."""
        command = ["ssh", "-F", str(self.config / "night-host/ssh_config"), *before, f"hmem-day-{name}", *words]
        return subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False
        )

    def say(self, text: str) -> None:
        """To the bot by day; returns when it is answered."""
        waiting = self.status()["turns_waiting"]
        self.day.telegram.say(9912, text, {"id": 9912, "is_bot": False, "first_name": "Noor"})
        wait_for(lambda: self.status()["turns_waiting"] >= waiting + 2, "the answer")

    def status(self) -> dict[str, Any]:
        return dict(json.loads(self.day.run("status", "--json").stdout))

    def lay_packages(self) -> None:
        """The virtual environment of the night host, with the packages of this one: pip would take minutes."""
        environment = self.program / ".venv"
        self.program.mkdir(parents=True)
        (self.program / STAMP).write_text("incomplete\n")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
        ours = next(Path(place) for place in sys.path if place.endswith("site-packages"))
        site = next((environment / "lib").glob("python*/site-packages"))
        (site / "shared.pth").write_text(f"{self.program}\n{ours}\n")
        for name, module in _PROGRAMS.items():
            path = environment / "bin" / name
            path.write_text(f"#!{environment}/bin/python\nfrom {module} import main\nmain()\n")
            path.chmod(0o755)
        with tempfile.TemporaryDirectory() as folder:
            stage(Path(folder))
            (environment / PACKAGES_STAMP).write_text(packages_stamp(Path(folder)))

    def break_python(self) -> None:
        """The night host has an old one only."""
        for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
            script(self.night_path, name, ['[ "$1" = --version ] && echo "Python 3.9.2"', "exit 1"])

    def mend(self) -> None:
        for path in self.night_path.iterdir():
            path.unlink()

    @contextmanager
    def without(self, program: str) -> Iterator[None]:
        """Meanwhile the night host has no such program, and no apt-get."""
        hidden = path_without(self.folder / f"without-{program}", program, "apt-get")
        self._write_sshd("night", self.night_port, self.night, f"{self.night_path}:{hidden}")
        self._servers["night"].send_signal(signal.SIGHUP)
        wait_for(lambda: self._finds_no(program), "the other PATH")
        yield
        self._write_sshd("night", self.night_port, self.night, f"{self.night_path}:{SYSTEM_PATH}")
        self._servers["night"].send_signal(signal.SIGHUP)
        wait_for(lambda: not self._finds_no(program), "the PATH")

    def _finds_no(self, program: str) -> bool:
        done = subprocess.run(
            [str(self.folder / "bin/ssh"), "gpu", f"command -v {program} || exit 3"], capture_output=True, check=False
        )
        return done.returncode == 3

    def control(self, *words: str) -> str:
        """supervisorctl on the day host."""
        return self.day.run("-c", f"{self.day.config}/supervisord.conf", *words, program="supervisorctl").stdout

    def _write_sshd(self, name: str, port: int, home: Path, path: str) -> None:
        keys = self.folder / "owner.pub" if name == "night" else home / ".ssh/authorized_keys"
        (self.folder / f"{name}.conf").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/{name}-host\nAuthorizedKeysFile {keys}\n"
            f"SetEnv HOME={home} PATH={path}\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\n"
            "PermitRootLogin yes\nStrictModes no\nPidFile none\nLogLevel ERROR\nMaxStartups 100\n"
        )

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Both sshds, and the ssh configuration of the owner of the day host."""
        for name in ("owner", "stranger", "day-host", "night-host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name)], check=True)
        known = (self.folder / "night-host.pub").read_text()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.night_port} {known}")
        (self.folder / "empty").write_text("")
        self._write_ssh()
        self._write_sshd("day", self.day_port, self.day.home, SYSTEM_PATH)
        self._write_sshd("night", self.night_port, self.night, f"{self.night_path}:{SYSTEM_PATH}")
        Path("/run/sshd").mkdir(exist_ok=True)
        self._servers = {name: self._sshd(name) for name in ("day", "night")}
        try:
            yield
        finally:
            for server in self._servers.values():
                server.terminate()
                server.wait()

    def _sshd(self, name: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(SSHD), "-D", "-e", "-f", str(self.folder / f"{name}.conf")], stderr=log, start_new_session=True
            )

    def _write_ssh(self) -> None:
        host = f"HostName 127.0.0.1\n User {getpass.getuser()}\n IdentitiesOnly yes\n LogLevel ERROR\n"
        hosts = {
            "gpu": (self.night_port, "owner", "known"),
            "gpu-without-key": (self.night_port, "stranger", "known"),
            "gpu-unknown": (self.night_port, "owner", "empty"),
            "gpu-off": (free_port(), "owner", "known"),
        }
        text = "".join(
            f"Host {name}\n {host} Port {port}\n IdentityFile {self.folder}/{key}\n UserKnownHostsFile {self.folder}/{known}\n"
            for name, (port, key, known) in hosts.items()
        )
        (self.folder / "ssh.conf").write_text(text)
        script(self.folder / "bin", "ssh", [f'exec {shutil.which("ssh")} -F {self.folder}/ssh.conf "$@"'])

    def processes(self) -> list[int]:
        """Those that run in the night's home."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if str(self.night).encode() in (place / "cmdline").read_bytes():
                    found.append(int(place.name))
        return found


@contextmanager
def two_homes() -> Iterator[TwoHomes]:
    """Nothing is installed yet."""
    if SSHD is None:
        pytest.fail("sshd is not installed. Run scripts/setup --dev (or: apt-get install openssh-server).")
    short = tempfile.TemporaryDirectory(prefix="n", dir="/tmp", ignore_cleanup_errors=True)
    with new_home() as day, short as night, tempfile.TemporaryDirectory() as folder:
        hosts = TwoHomes(day, Path(night), Path(folder))
        try:
            with hosts.serving():
                yield hosts
        finally:
            for pid in hosts.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def install_day(hosts: TwoHomes) -> None:
    """`hmem init`, and a first turn in an archive."""
    code, output = hosts.day.init("--yes")
    assert code == 0, output
    hosts.say("My boiler shows the code F28.")
    night = hosts.day.run("run", program="hmem-night")
    assert night.returncode == 0, night.stderr
