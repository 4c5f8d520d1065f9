"""The services of this host: which run, and their restart; under systemd (of the system or of the user), or supervisord."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Protocol

from dispatcher.installation.layout import BINARIES
from shared.config.sources import settings_file
from shared.errors import UpgradeFailed
from shared.system.processes import last_line, run_bounded

#: Our services that run all the time, in the order of their restart.
NAMES = ("hmem-dispatcher", "hmem-telegram")
#: Seconds to ask; seconds for a restart: the dispatcher finishes its tasks first (STOP_TIMEOUT).
ASKING_SECONDS, RESTART_SECONDS = 15.0, 900.0
_SYSTEMD = (("systemctl",), ("systemctl", "--user"))


class Services(Protocol):
    def running(self) -> Sequence[str]:
        """Which of NAMES run here."""
        ...

    def restart(self, names: Sequence[str]) -> None:
        """Restart these, one after the other; UpgradeFailed names the first that does not start."""
        ...


class HostServices:
    """Found anew each time: units of systemd, or programs of supervisord."""

    def running(self) -> list[str]:
        return [name for name in NAMES if _restart_of(name)]

    def restart(self, names: Sequence[str]) -> None:
        for name in names:
            command = _restart_of(name)
            if command is None:
                continue  # it was stopped meanwhile
            done = _run(command, RESTART_SECONDS)
            if done is None or done.returncode:
                why = last_line(done) if done else f"no answer within {RESTART_SECONDS:g} s"
                raise UpgradeFailed(
                    f"The service {name} could not be restarted ({why}). Look at its log, then run: {' '.join(command)}."
                )


def _restart_of(name: str) -> list[str] | None:
    """The command that restarts a service which runs; None if nobody knows it as running."""
    for manager in _SYSTEMD:
        done = _run([*manager, "is-active", f"{name}.service"], ASKING_SECONDS)
        if done and done.stdout.strip() in ("active", "activating", "reloading"):
            return [*manager, "restart", name]
    for supervisorctl, program in ((["supervisorctl"], name), (_of_init(), name.removeprefix("hmem-"))):
        done = _run([*supervisorctl, "status", program], ASKING_SECONDS) if supervisorctl else None
        if done and " RUNNING " in done.stdout:
            return [*supervisorctl, "restart", program]
    return None


def _of_init() -> list[str]:
    """supervisorctl of the supervisord that `hmem init` has set up beside the settings; nothing if there is none."""
    settings = settings_file()
    conf = settings.parent / "supervisord.conf" if settings else None
    return [str(BINARIES / "supervisorctl"), "-c", str(conf)] if conf and conf.exists() else []


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str] | None:
    """None if the program is not there, or does not answer."""
    try:
        return run_bounded(command, seconds)
    except (OSError, subprocess.TimeoutExpired):
        return None
