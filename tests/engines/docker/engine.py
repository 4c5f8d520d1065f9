"""A Docker engine in namespaces of its own, which end with the tests, however those end: nothing stays mounted, running or in the host's network."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

from tests.engines import roots
from tests.support.machine import wait_for

PROGRAMS = ("dockerd", "docker", "docker-init", "debootstrap", "slirp4netns", "setpriv", "unshare", "nsenter", "ip")
#: In the engine's network, beside Docker's own addresses: containers reach there what listens there.
ADDRESS = "192.0.2.1"
#: slirp4netns asks this host's resolver, and ends each connection: packets may be as large as they can.
RESOLVER, MTU = "10.0.2.3", 65520
#: Containers are in a group of this name and our process id, among the host's cgroups.
GROUP = "hmem-docker-"
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


class Engine:
    """dockerd within `with`: images and what was built stay in `data`, all else is in `folder`."""

    def __init__(self, data: Path, folder: Path, plugins: Path) -> None:
        self._data, self._folder = data, folder
        self._group = f"{GROUP}{os.getpid()}"
        self._running: list[subprocess.Popen[bytes]] = []
        (folder / "client").mkdir()
        (folder / "client/cli-plugins").symlink_to(plugins)
        own = {"DOCKER_HOST": f"unix://{folder}/socket", "DOCKER_CONFIG": f"{folder}/client", "DOCKER_BUILDKIT": "1"}
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder)} | own

    def __enter__(self) -> Self:
        self._holder = self._start("dockerd", "unshare", *NAMESPACES, "docker-init", "--", "sh", "-ec", self._script())
        try:
            wait_for(lambda: self._holder.poll() is not None or self._answers(), lambda: self._log("dockerd"))
            if self._holder.poll() is not None:
                pytest.skip(f"dockerd does not run here: {self._log('dockerd')}")
            self._connect()
            self._clear()  # what a run that was killed has left
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._clear()
        finally:
            self._stop()

    @property
    def network(self) -> Path:
        """Its network namespace."""
        return Path(f"/proc/{self._holder.pid}/ns/net")

    def docker(self, *words: str, check: bool = True, variables: Mapping[str, str] | None = None, **more: Any) -> str:
        """What `docker` says on its standard output. AssertionError with the end of all that it says, if it fails."""
        environment = self._environment | dict(variables or {})
        done: subprocess.CompletedProcess[str] = subprocess.run(
            ["docker", *words], env=environment, capture_output=True, text=True, timeout=1800, check=False, **more
        )
        told = f"docker {' '.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
        assert done.returncode == 0 or not check, told
        return done.stdout

    def _script(self) -> str:
        """What runs inside of its namespaces."""
        settings = {
            "data-root": str(self._data), "exec-root": f"{self._folder}/exec", "pidfile": f"{self._folder}/pid",
            "hosts": [self._environment["DOCKER_HOST"]], "dns": [RESOLVER], "mtu": MTU, "cgroup-parent": f"/{self._group}",
            "builder": {"gc": {"enabled": True, "defaultKeepStorage": "5GB"}},
        }  # fmt: skip
        file = self._folder / "daemon.json"
        file.write_text(json.dumps(settings))
        return f"ip link set lo up; ip address add {ADDRESS}/32 dev lo; exec dockerd --config-file={file}"

    def _answers(self) -> bool:
        return bool(self.docker("network", "ls", "--quiet", check=False))

    def _connect(self) -> None:
        """Gives its network a way to where this host downloads from."""
        self._start(
            "slirp4netns", "slirp4netns", "--configure", f"--mtu={MTU}", "--netns-type=path", str(self.network), "tap0"
        )
        routes = ["nsenter", f"--net={self.network}", "ip", "route", "show", "default"]
        wait_for(lambda: roots.checked(routes), lambda: self._log("slirp4netns"))

    def _clear(self) -> None:
        """Removes every container, volume and network, and the images of earlier commits."""
        if containers := self.docker("ps", "--all", "--quiet").split():
            self.docker("rm", "--force", "--volumes", *containers)
        if volumes := self.docker("volume", "ls", "--quiet").split():
            self.docker("volume", "rm", *volumes)
        for kind in ("network", "image"):
            self.docker(kind, "prune", "--force")

    def _stop(self) -> None:
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        if self._holder.poll() is None:
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._holder.wait(60)
        for process in self._running:
            process.kill()
            process.wait()
        groups = Path("/sys/fs/cgroup")
        for group in (*groups.glob(f"{GROUP}*"), *groups.glob(f"*/{GROUP}*")):  # also of a run that was killed
            for one in sorted(group.glob("**"), reverse=True):
                with suppress(OSError):  # another run's
                    one.rmdir()

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            words = ["setpriv", "--pdeathsig", "SIGKILL", *command]
            started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._running.append(started)
        return started

    def _log(self, name: str) -> str:
        return f"{name}, which says: {(self._folder / f'{name}.log').read_text(errors='replace')[-1000:]}"
