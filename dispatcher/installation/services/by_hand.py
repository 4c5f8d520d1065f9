"""Services where no systemd runs: Redis is started here, the other programs by their owner, with commands that are printed;
and which service manager this host has.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from contextlib import closing, suppress

from redis.exceptions import RedisError

from dispatcher.installation.hooks import service
from dispatcher.installation.layout import Layout, Service, programs_of
from dispatcher.installation.run import as_account, run
from dispatcher.installation.services.systemd import SystemdServices, user_manager_runs
from shared.config.settings import Settings
from shared.errors import InstallationIncomplete
from shared.hooks import features
from shared.wire.client import asking_once, open_redis

#: Programs that say with `--check` whether they are at work; the others cannot be asked.
_CHECKED = ("dispatcher", "telegram")


class ByHand:
    """The programs of an installation, as far as they can be looked after without a service manager."""

    name = "hand"

    def __init__(self, layout: Layout, programs: Sequence[Service], settings: Settings) -> None:
        self._layout, self.programs, self._settings = layout, programs, settings

    @property
    def unchecked(self) -> list[str]:
        return [name for name in self._names() if name not in (*_CHECKED, "redis")]

    def install(self) -> bool:
        """Nothing is written."""
        return False

    def is_installed(self) -> bool:
        return False

    def start(self, names: Sequence[str]) -> None:
        """Start Redis. InstallationIncomplete with the commands of the others that do not run."""
        stopped = self.stopped()
        if "redis" in names and "redis" in stopped:
            self._start_redis()
        if missing := [name for name in names if name in stopped and name != "redis"]:
            commands = "\n".join(self.commands([*missing, *self.unchecked]))
            raise InstallationIncomplete(
                "systemd does not run here, so start these programs yourself: each in its own terminal, or with whatever "
                f"starts programs on this host. Then run hmem init again:\n{commands}"
            )

    def restart(self, names: Sequence[str]) -> None:
        """Restart Redis; the others take new settings when their owner restarts them."""
        if "redis" in names:
            self._stop_redis()
            self._start_redis()

    def stopped(self) -> list[str]:
        """Programs that do not run, as far as they can be asked."""
        return [program.name for program in self.programs if not self._runs(program)]

    def remove(self) -> None:
        stopped = self.stopped()
        if running := [name for name in _CHECKED if name not in stopped and name in self._names()]:
            raise InstallationIncomplete(
                f"{' and '.join(running)} of this installation still run. Stop them where you started them, then run hmem init --undo again."
            )
        if "redis" in self._names():
            self._stop_redis()

    def after_restart(self) -> str:
        commands = "\n".join(self.commands(self._names()))
        return f"Nothing starts by itself here. Run these after this host restarts, and all but Redis after you change a setting:\n{commands}"

    def commands(self, names: Sequence[str]) -> list[str]:
        """What to type to start these, one line each."""
        variables = f"HMEM_CONFIG={shlex.quote(str(self._layout.settings_file))}"
        return [
            shlex.join(self._redis_command())
            if program.name == "redis"
            else f"{variables} {shlex.join(program.command)}"
            for program in self.programs
            if program.name in names
        ]

    def _names(self) -> list[str]:
        return [program.name for program in self.programs]

    def _runs(self, program: Service) -> bool:
        if program.name == "redis":
            return self._redis_answers()
        if program.name not in _CHECKED:
            return True
        how = as_account(None, more={"HMEM_CONFIG": str(self._layout.settings_file)})
        done = subprocess.run([*program.command, "--check"], capture_output=True, timeout=120, check=False, **how)
        return done.returncode == 0

    def _redis_answers(self) -> bool:
        with suppress(RedisError), closing(open_redis(self._settings.redis_url, asking_once(5.0))) as client:
            return bool(client.ping())
        return False

    def _redis_command(self) -> list[str]:
        folder = self._layout.redis
        options = ["--daemonize", "yes", "--logfile", str(folder / "redis.log")]
        return ["redis-server", str(folder / "redis.conf"), *options]

    def _start_redis(self) -> None:
        log = self._layout.redis / "redis.log"
        remedy = f"Its log is {log}; correct what it says, then run hmem init again."
        run(self._redis_command(), "Starting Redis", remedy, **as_account(None))

    def _stop_redis(self) -> None:
        with suppress(RedisError), closing(open_redis(self._settings.redis_url, asking_once(30.0))) as client:
            client.shutdown(save=True)


#: What starts the programs of an installation, now and after a restart of the host.
ServiceManager = SystemdServices | ByHand


def services_of(layout: Layout, settings: Settings) -> ServiceManager:
    """systemd where it runs, else their owner; with the programs of features."""
    own_redis = (layout.redis / "redis.conf").exists()
    bot = settings.telegram_bot_token is not None or (layout.secrets / "bot.toml").exists()
    programs = [*programs_of(layout, own_redis=own_redis, bot=bot), *features().ask(service, settings=settings)]
    if layout.kind == "three-users" or user_manager_runs():
        return SystemdServices(layout, programs, settings)
    return ByHand(layout, programs, settings)
