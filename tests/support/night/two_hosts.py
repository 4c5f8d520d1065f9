"""A day host behind a real sshd with throw-away keys and the forced command."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import free_port, wait_for
from tests.support.world import REPOSITORY, World

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin")


@dataclass
class DayHost:
    """A directory that another host's sshd serves; `ssh(key)` is the command line for one of the keys."""

    world: World
    port: int
    folder: Path

    def ssh(self, key: str) -> list[str]:
        options = (
            "BatchMode=yes StrictHostKeyChecking=no UserKnownHostsFile=/dev/null LogLevel=ERROR IdentitiesOnly=yes"
        )
        arguments = [part for option in options.split() for part in ("-o", option)]
        return ["ssh", "-F", "none", *arguments, "-i", str(self.folder / key), "-p", str(self.port)]

    @property
    def place(self) -> str:
        return f"{getpass.getuser()}@127.0.0.1"

    def ask(self, key: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.ssh(key), self.place, *words], capture_output=True, text=True, timeout=600, check=False
        )

    def settings(self) -> dict[str, Any]:
        return {
            "PUBLISH_TARGET": f"{self.place}:",
            "PUBLISH_SSH": " ".join(self.ssh("night")),
            "RELEASE_COMMAND": " ".join([*self.ssh("night"), self.place]),
            "HMEM_MEMORY_DIR": "/nonexistent/on/the/night/host",
        }


@contextmanager
def serving(light: World, folder: Path) -> Iterator[DayHost]:
    """The sshd runs while the block does; its keys lie in `folder`."""
    folder.mkdir(mode=0o700)
    for name in ("night", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    light.memory_dir.mkdir(parents=True, mode=0o700)
    (folder / "authorized_keys").write_text(_authorized_key(light, folder))
    with sshd(folder, folder / "authorized_keys") as port:
        host = DayHost(light, port, folder)
        wait_for(lambda: host.ask("night", "begin").returncode == 0, "sshd")
        yield host


@contextmanager
def sshd(folder: Path, authorized_keys: Path, **variables: str) -> Iterator[int]:
    """A real one, with a host key of its own (`host`); its port."""
    if SSHD is None:
        pytest.fail("sshd is not installed. Run scripts/setup --dev (or: apt-get install openssh-server).")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "host")], check=True)
    port, config = free_port(), folder / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {authorized_keys}\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        "StrictModes no\nPidFile none\nLogLevel ERROR\n"
        "KexAlgorithms curve25519-sha256\n"  # OpenSSH's own choice costs as much as all the rest of a connection
        + "".join(f"SetEnv {name}={value}\n" for name, value in variables.items())
    )
    Path("/run/sshd").mkdir(exist_ok=True)
    command = [SSHD, "-D", "-e", "-f", str(config)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log, start_new_session=True) as server:
        try:
            yield port
        finally:  # or its end would be waited for for ever
            server.terminate()


def _authorized_key(world: World, folder: Path) -> str:
    """The line of docs/two-hosts.md, with the settings of the day host given by a file instead of /etc."""
    config = folder / "hmem.toml"
    state = world.root / "day-state"
    config.write_text(
        f'REDIS_URL = "{world.url}"\nHMEM_MEMORY_DIR = "{world.memory_dir}"\nHMEM_STATE_DIR = "{state}"\nEMBEDDER = "none"\n'
    )
    receive = f"HMEM_CONFIG={config} PYTHONPATH={REPOSITORY} {REPOSITORY}/deploy/hmem-receive"
    return f'restrict,command="{receive}" {(folder / "night.pub").read_text()}'
