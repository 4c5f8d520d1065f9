"""A Debian with a systemd of its own as PID 1: systemd-nspawn over a kept root, in a network that reaches what this host reaches.

Its mounts and its network live in namespaces of one process, and every process is ended with the tests' own: a test run that is killed leaves
nothing mounted and nothing running.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.engines import roots
from tests.support.machine import wait_for
from tests.support.world import REPOSITORY

PROGRAMS = ("debootstrap", "systemd-nspawn", "slirp4netns", "nsenter", "unshare", "setpriv", "git")
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "libpam-systemd", "python3", "python3-venv", "sudo", "curl", "iproute2", "procps", "git"
)  # fmt: skip
#: The files of the checkout that decide what scripts/setup installs.
MADE_OF = ("requirements.lock", "scripts/setup")
#: What `hmem init` writes, the timer of the last one apart.
UNITS = ("hmem-redis.service", "hmem-dispatcher.service", "hmem-telegram.service", "hmem-night.service")
CHECKOUT = "/opt/hcli-memory"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "NODE_EXTRA_CA_CERTS": f"/{roots.CERTIFICATES}",
}
#: A systemd-nspawn that is killed leaves its systemd running, unless that is in PIDs of ours.
WITH_US = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
#: It refuses what it does not know, such as Landlock.
NSPAWN = (
    "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--console=pipe",
    "--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
)  # fmt: skip


class Machine:
    """`with Machine(root) as machine:` has booted, and runs on a copy of the root, or on the root itself (`copied=False`)."""

    def __init__(self, root: Path, *, copied: bool = True) -> None:
        self._given, self._copied, self._place = root, copied, roots.cache() / "machine"
        self._root, self._log = self._place / "root", self._place / "console.log"
        self._own_network = self._place / "network"
        self._running: list[subprocess.Popen[bytes]] = []
        self._leader = 0

    def __enter__(self) -> Self:
        shutil.rmtree(self._place, ignore_errors=True)  # of a run that was killed
        for name in ("root", "changes", "work"):
            (self._place / name).mkdir(parents=True)
        try:
            self._holder = self._start("unshare", "--mount", "--net", "sleep", "infinity").pid
            own = Path("/proc/self/ns/net").readlink()
            wait_for(lambda: self.network.readlink() != own, "namespaces of the machine")
            layers = f"lowerdir={self._given},upperdir={self._place}/changes,workdir={self._place}/work"
            mounted = ["-t", "overlay", "-o", layers, "overlay"] if self._copied else ["--bind", str(self._given)]
            self._around("--mount", "mount", *mounted, str(self._root))
            self._around("--net", "ip", "link", "set", "lo", "up")
            self._own_network.touch()  # /proc/<pid>/ns/net would be another process' where nspawn looks for it
            self._around("--mount", "mount", "--bind", str(self.network), str(self._own_network))
            self._start("slirp4netns", "--configure", "--mtu=1400", str(self._holder), "tap0")
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._running):
            process.kill()
            process.wait()
        wait_for(_left_cgroups, "the machine's processes to be gone")
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def network(self) -> Path:
        """Its network namespace."""
        return Path(f"/proc/{self._holder}/ns/net")

    def boot(self) -> None:
        """Until systemd has started everything."""
        command = ["nsenter", f"--target={self._holder}", "--mount", *WITH_US, *NSPAWN]
        command += [f"--network-namespace-path={self._own_network}", f"--directory={self._root}"]
        self._nspawn = self._start(*command, at_first=_join_cgroups)
        wait_for(self._is_up, lambda: f"the machine to boot; it says:\n{self._log.read_text(errors='replace')[-4000:]}")
        for controller in ("memory", "pids"):
            if Path("/sys/fs/cgroup", controller).exists():  # of version 1: mounted read-only, and no limit would hold
                again = ["mount", "-o", "remount,rw,bind", f"/sys/fs/cgroup/{controller}"]
                roots.checked(["nsenter", f"--target={self._leader}", "--mount", *again])
        self.run("systemctl", "daemon-reexec")

    def power_off(self) -> None:
        """As its power button does: everything is stopped in order."""
        self._try("systemctl", "poweroff")
        self._nspawn.wait(timeout=300)
        self._running.remove(self._nspawn)

    def run(self, *command: str, **more: str) -> str:
        """What a command of root says, with more variables in its environment. AssertionError if it fails."""
        done = self._try(*command, **more)
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-4000:]}"
        return done.stdout

    def set_up(self) -> str:
        """What scripts/setup says."""
        return self.run("bash", "-c", f"cd {CHECKOUT} && scripts/setup")

    def hmem(self, *words: str, **more: str) -> str:
        return self.run(f"{CHECKOUT}/.venv/bin/hmem", *words, **more)

    def status(self) -> dict[str, Any]:
        """`hmem status`."""
        return dict(json.loads(self._try(f"{CHECKOUT}/.venv/bin/hmem", "status", "--json").stdout))

    def shown(self, unit: str, name: str) -> str:
        """A property of a unit, as systemd has it now."""
        return self.run("systemctl", "show", "--value", "--property", name, unit).strip()

    def journal(self, unit: str) -> str:
        return self._try("journalctl", "--no-pager", "--output=short-iso", "--lines=60", f"--unit={unit}").stdout

    def inside(self, path: str) -> Path:
        """A file of the machine, as this host can read it."""
        return Path(f"/proc/{self._leader}/root") / path.lstrip("/")

    def process(self, unit: str) -> Path:
        """The directory in /proc of a unit's main process."""
        return self.inside(f"/proc/{self.shown(unit, 'MainPID')}")

    def _try(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        variables = [f"{name}={value}" for name, value in (ENVIRONMENT | more).items()]
        namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"]
        return subprocess.run(
            ["nsenter", f"--target={self._leader}", *namespaces, "env", "--ignore-environment", *variables, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False,
        )  # fmt: skip

    def _start(self, *command: str, at_first: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            words = ["setpriv", "--pdeathsig", "SIGKILL", *command]
            started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=at_first)
        self._running.append(started)
        return started

    def _around(self, namespace: str, *command: str) -> None:
        roots.checked(["nsenter", f"--target={self._holder}", namespace, *command])

    def _is_up(self) -> bool:
        self._leader = _first_child(_first_child(self._nspawn.pid))  # unshare, nspawn, systemd
        said = self._try("systemctl", "is-system-running", "--wait").stdout if self._leader else ""
        return said.strip() in ("running", "degraded")


def _cgroups() -> list[Path]:
    """Its own in each hierarchy that its systemd uses; with cgroups of version 2 there is one."""
    found = [Path("/sys/fs/cgroup", name) for name in ("systemd", "unified", "memory", "pids")]
    return [place / "hmem-engines" for place in found if place.exists()] or [Path("/sys/fs/cgroup/hmem-engines")]


def _join_cgroups() -> None:
    for place in _cgroups():
        place.mkdir(exist_ok=True)
        (place / "cgroup.procs").write_text(str(os.getpid()))


def _left_cgroups() -> bool:
    """Whether they could be removed: no process is in them any more."""
    try:
        for place in _cgroups():
            for folder, _, _ in os.walk(place, topdown=False):
                Path(folder).rmdir()
    except OSError:
        return False
    return True


def _first_child(pid: int) -> int:
    """0 if it has none, or does not run."""
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return 0


def installed_root() -> Path:
    """A Debian in which scripts/setup has run under its systemd, with this commit of the checkout."""
    made_of = [roots.checked(["git", "-C", str(REPOSITORY), "show", f"HEAD:{name}"]) for name in MADE_OF]
    root = roots.kept("systemd", [*PACKAGES, *made_of], _install)
    roots.check_out(root)
    return root


def _install(root: Path) -> None:
    roots.debian(root, PACKAGES)
    roots.check_out(root)
    with Machine(root, copied=False) as machine:
        machine.set_up()
        machine.power_off()
