"""Services under systemd: with three users the units of systemd/, confined as they are; for a user of his own, plain units of the user's manager."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from dispatcher.installation import environment
from dispatcher.installation.layout import BINARIES, DISPATCHER_STOPS, Layout, Service
from dispatcher.installation.run import as_account, run
from shared.config.ownership import user_name
from shared.config.settings import Settings
from shared.config.sources import WRITTEN_BY, is_of_init
from shared.errors import InstallationIncomplete
from shared.system.files import write_atomic

SYSTEM_UNITS = Path("/etc/systemd/system")
#: Where systemd keeps when a timer with Persistent= last ran, also after its unit is gone.
TIMER_STAMPS = Path("/var/lib/systemd/timers")
#: The units as they are for the directories of docs/install.md, and what they name there.
SHIPPED = resources.files("dispatcher.installation") / "units"
_CHECKOUT, _REDIS_BINARY, _REDIS_PLACE = "/opt/hcli-memory", "/usr/bin/redis-server", "/var/lib/hmem-redis"
NIGHT_TIMER = "hmem-night.timer"


class SystemdServices:
    """The system's manager, or this user's. `unchecked`: programs of which it is not known whether they run."""

    unchecked: Sequence[str] = ()

    def __init__(self, layout: Layout, programs: Sequence[Service], settings: Settings) -> None:
        self._layout, self.programs, self._settings = layout, programs, settings
        self._system = layout.kind == "three-users"
        self.name = "systemd" if self._system else "systemd of this user"
        self._folder = SYSTEM_UNITS if self._system else Path.home() / ".config" / "systemd" / "user"

    def install(self) -> bool:
        changed = False
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.units().items():
            path = self._folder / name
            if path.exists() and path.read_text(encoding="utf-8") == text:
                continue
            if path.exists() and not is_of_init(path):
                raise InstallationIncomplete(
                    f"{path} exists, and hmem init did not write it, so this host was set up by hand. Stop that service and move the file away, "
                    "then run hmem init again."
                )
            write_atomic(path, text.encode())
            path.chmod(0o644)
            changed = True
        changed |= self._remove(sorted(self._ours() - set(self.units())))
        if changed:
            self._control("daemon-reload")
        if not self._system and shutil.which("loginctl") and not lingers():
            remedy = f"Run it as root: loginctl enable-linger {user_name(os.geteuid())}; then run hmem init again."
            run(["loginctl", "enable-linger"], "Letting services run without a login", remedy, **as_account(None))
        return changed

    def is_installed(self) -> bool:
        return not self._ours().isdisjoint(self.units())

    def start(self, names: Sequence[str]) -> None:
        for name in names:
            self._control("enable", "--now", self._unit(name))

    def restart(self, names: Sequence[str]) -> None:
        for name in names:
            self._control("restart", self._unit(name))

    def stopped(self) -> list[str]:
        return [program.name for program in self.programs if not self._is_active(self._unit(program.name))]

    def remove(self) -> None:
        programs = [self._unit(program.name) for program in reversed(self.programs)]
        ours = self._ours()
        self._remove([*filter(ours.__contains__, programs), *sorted(ours.difference(programs))])
        self._control("daemon-reload")

    def _ours(self) -> set[str]:
        """The units that `hmem init` has written here, also the ones that are no longer wanted."""
        return {path.name for path in self._folder.glob("hmem-*") if is_of_init(path)}

    def _remove(self, units: Sequence[str]) -> bool:
        """Stop them in this order, then remove their files; whether there were any. A unit without an [Install] section stops with another one,
        for which its file has to be there still."""
        for name in units:
            if "[Install]" in (self._folder / name).read_text(encoding="utf-8"):
                self._control("disable", "--now", name)
        for name in units:
            (self._folder / name).unlink(missing_ok=True)
            (TIMER_STAMPS / f"stamp-{name}").unlink(missing_ok=True)
        return bool(units)

    def after_restart(self) -> str:
        return ""

    def units(self) -> dict[str, str]:
        """File name → text of each unit."""
        if self._system:
            return self._of_three_users()
        return {self._unit(program.name): self._of_this_user(program) for program in self.programs}

    def _unit(self, name: str) -> str:
        return NIGHT_TIMER if self._system and name == "night" else f"hmem-{name}.service"

    def _of_this_user(self, program: Service) -> str:
        command = " ".join([shutil.which(program.command[0]) or program.command[0], *program.command[1:]])
        return (SHIPPED / "own-user.service").read_text(encoding="utf-8").format(
            unit=self._unit(program.name), description=program.description, command=command.replace("%", "%%"),
            settings=self._layout.settings_file, stop_seconds=program.stop_seconds, kill_mode=program.kill_mode,
            restart_seconds=1 if program.name == "telegram" else 5,
        )  # fmt: skip

    def _of_three_users(self) -> dict[str, str]:
        wanted = {self._unit(one.name): one.unit or SHIPPED / self._unit(one.name) for one in self.programs}
        if NIGHT_TIMER in wanted:
            wanted |= {
                name: SHIPPED / name for name in ("hmem-night.service", "hmem-capture.service", "hmem-capture.timer")
            }
        return {name: f"{WRITTEN_BY}.\n{self._placed(unit.read_text('utf-8'))}" for name, unit in wanted.items()}

    def _placed(self, text: str) -> str:
        """A shipped unit with this installation's program, Redis, night, mirror and keys."""
        text = text.replace(f"{_CHECKOUT}/scripts/nightly.sh", f"{BINARIES}/hmem-night run")
        text = text.replace(f"{_CHECKOUT}/.venv/bin", str(BINARIES))
        if any(one.name == "redis" for one in self.programs):
            text = text.replace("redis-server.service", self._unit("redis")).replace(
                _REDIS_PLACE, str(self._layout.redis)
            )
            text = text.replace(_REDIS_BINARY, shutil.which("redis-server") or _REDIS_BINARY)
        minute, hour = self._settings.night_cron.split()[:2]
        if minute.isdecimal() and hour.isdecimal():
            clock = f"OnCalendar=*-*-* {int(hour):02}:{int(minute):02}:00 {self._settings.chat_timezone}"
            text = text.replace("OnCalendar=*-*-* 03:00:00", clock)
        if (mirror := self._settings.archive_mirror or "").startswith("/"):
            place = "/data/memory /var/lib/hmem-night"
            text = text.replace(f"{place}\n", f"{place} -{mirror}\n")
        return text

    def _is_active(self, unit: str) -> bool:
        command = [*self._systemctl(), "is-active", "--quiet", unit]
        return subprocess.run(command, check=False, **as_account(None)).returncode == 0

    def _control(self, *words: str) -> None:
        log = f"journalctl{'' if self._system else ' --user'}" + (f" -u {words[-1]} -n 20" if "." in words[-1] else "")
        remedy = f"The reason is in its log: {log}. Correct it, then run hmem init again."
        why, seconds = f"systemctl {' '.join(words)}", DISPATCHER_STOPS + 60.0
        run([*self._systemctl(), *words], why, remedy, seconds=seconds, **as_account(None))

    def _systemctl(self) -> list[str]:
        return ["systemctl"] if self._system else ["systemctl", "--user"]


def lingers() -> bool:
    return Path("/var/lib/systemd/linger", user_name(os.geteuid())).exists()


def user_manager_runs() -> bool:
    """Whether this user's systemd can be asked."""
    if shutil.which("systemctl") is None or not environment.variable("XDG_RUNTIME_DIR"):
        return False
    command = ["systemctl", "--user", "show-environment"]
    return subprocess.run(command, capture_output=True, check=False, **as_account(None)).returncode == 0
