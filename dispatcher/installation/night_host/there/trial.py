"""On the night host: does each key do what it is for, and nothing else? Tried before anything is moved."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.exceptions import RedisError

from dispatcher.installation.night_host.redis_tunnel import ALIAS, tunnel
from shared.errors import InstallationIncomplete, InvalidInput, exit_codes
from shared.wire import keys
from shared.wire.client import asking_once, open_redis

TRANSFER, VERBS = "hmem-day-transfer", "hmem-day-verbs"
#: Seconds for one command over there.
_SECONDS = 120.0
_NO_RUN = 999_999_999
_SEALED = "sha256:" + "0" * 64
#: Verbs that the day host must understand and refuse: there is no such run, and no night holds the lease.
_REFUSED = (
    f"lacking {_NO_RUN} 1 {_SEALED}",
    f"verify {_NO_RUN} 1 {_SEALED}",
    f"switch {_NO_RUN} 1",
    f"verify {_NO_RUN} 0",
)
#: Verbs that do nothing now: no such run is current, nothing is to be pruned.
_HARMLESS = (f"rollback {_NO_RUN}", "prune")
_FORBIDDEN = ("ls", "begin 1; ls", "cat /etc/passwd", "")


@dataclass(frozen=True)
class KeyTrial:
    """`config`: of ssh; `how`: arguments for subprocess, by which it runs as the account of the nights; `address`: of the day host, for errors."""

    config: Path
    how: dict[str, Any]
    address: str

    def thoroughly(self) -> str:
        """Every verb, and what must be refused. Only while no night runs."""
        current = self.briefly()
        self._send()
        for request in _REFUSED:
            self._expect(request, refused=True)
        for request in _HARMLESS:
            self._expect(request, refused=False)
        for request in _FORBIDDEN:
            done = self._ssh(VERBS, request)
            if done.returncode != InvalidInput.exit_code or "This key allows only" not in done.stderr:
                raise InstallationIncomplete(f"The key for the verbs did not refuse {request!r} as it must.")
        self._refuse_reading()
        self._refuse_forwarding()
        return current

    def briefly(self) -> str:
        """Which release is current on the day host."""
        done = self._ssh(VERBS, "begin")
        if done.returncode:
            raise self._failed("begin", done)
        current = json.loads(done.stdout)["current"]
        return f"release {current['run']}" if current else "no release yet"

    def redis(self, socket: Path, url: str) -> None:
        """Redis answers through its key, by this URL. InstallationIncomplete if not."""
        with tunnel(socket, self.config, **self.how):
            self.ask_redis(url)

    def ask_redis(self, url: str) -> None:
        try:
            with closing(open_redis(url, asking_once(30.0))) as client:
                client.ping()
                client.get(keys.NIGHT_OWNER)
        except (RedisError, OSError) as error:
            done = self._ssh(ALIAS, "")
            if done.returncode == 255:
                raise self._failed("redis", done) from error
            raise InstallationIncomplete(
                f"Redis on the day host does not answer through ssh ({error}). Check that it runs there (hmem doctor), then run the "
                "same command again."
            ) from error

    def _send(self) -> None:
        """A file into incoming/, which `prune` removes."""
        with tempfile.NamedTemporaryFile(prefix="hmem-trial-") as file:
            Path(file.name).chmod(0o644)  # the account of the nights reads it
            command = ["rsync", "-e", f"ssh -F {self.config}", file.name, f"{TRANSFER}:hmem-trial"]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **self.how
            )
        if done.returncode:
            raise self._failed("transfer", done)

    def _expect(self, request: str, *, refused: bool) -> None:
        done = self._ssh(VERBS, request)
        known = done.returncode in exit_codes() and "Traceback" not in done.stderr
        if (refused and not known) or (not refused and done.returncode):
            raise self._failed(request, done)

    def _refuse_reading(self) -> None:
        """The key for the transfer runs nothing and gives nothing out."""
        for request in ("ls", "rsync --server --sender -r . /etc/hostname"):
            done = self._ssh(TRANSFER, request)
            if done.returncode == 0:
                raise InstallationIncomplete(f"The key for the transfer did not refuse {request!r} as it must.")
            if done.returncode == 255:
                raise self._failed("transfer", done)

    def _refuse_forwarding(self) -> None:
        for alias in (TRANSFER, VERBS, ALIAS):
            done = self._ssh("-W", "127.0.0.1:22", alias)
            if done.returncode == 0:
                raise InstallationIncomplete(f"The key {alias} may forward ports on the day host, and must not.")

    def _ssh(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["ssh", "-F", str(self.config), *words]
        try:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False, **self.how
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise InstallationIncomplete(
                f"The day host did not answer within {_SECONDS:.0f} s ({' '.join(words)}). Check the network, then run the same command again."
            ) from error

    def _failed(self, request: str, done: subprocess.CompletedProcess[str]) -> InstallationIncomplete:
        said = " ".join(done.stderr.split())[-300:] or f"exit code {done.returncode}"
        if done.returncode != 255:
            return InstallationIncomplete(
                f"The day host could not carry out {request!r}: {said.rstrip('.')}. Correct that, then run the same command again."
            )
        if "Permission denied" in said:
            why = "its sshd does not accept the key: it must allow that account (AllowUsers) to use ~/.ssh/authorized_keys"
        elif "verification failed" in said or "IDENTIFICATION" in said:
            why = "another host answers there, or another sshd than that of /etc/ssh: its host key differs. Give --day-address, or --day-host-key"
        else:
            why = f"{said.rstrip('.')}. Give the address at which this host reaches it with --day-address HOST:PORT"
        return InstallationIncomplete(f"The day host cannot be reached at {self.address}: {why}.")
