"""Services where no systemd runs: supervisor, which a package of ours brings, started again after a restart by cron where there is cron."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dispatcher.installation import environment
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.layout import BINARIES, SOCKET, Layout
from dispatcher.installation.run import run
from dispatcher.installation.services.base import DISPATCHER_STOPS, Program
from shared.errors import InstallationIncomplete
from shared.system.files import write_atomic

_HEAD = """\
; Written by hmem init, which writes it again: change nothing here.
[unix_http_server]
file={socket}
chmod=0700

[supervisord]
logfile={logs}/supervisord.log
pidfile={run}/supervisord.pid
childlogdir={logs}
umask=077
{user}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface

[supervisorctl]
serverurl=unix://{socket}
"""
_PROGRAM = """
[program:{name}]
command={command}
priority={priority}
directory=/
environment={environment}
{user}autostart=true
autorestart=true
startsecs=2
startretries=1000000
stopsignal=TERM
stopwaitsecs={stop_seconds}
killasgroup=true
redirect_stderr=true
stdout_logfile={logs}/{name}.log
stdout_logfile_maxbytes=10MB
stdout_logfile_backups=3
"""
#: Seconds within which all programs end: the dispatcher finishes its answers.
END_SECONDS = DISPATCHER_STOPS + 60.0
#: What supervisorctl answers about a program that runs, or is between two tries.
_STARTED_ALREADY = "ERROR (already started)"
#: Marks our line in a crontab.
_MARK = "# hcli-memory: start after a restart of this host (hmem init)"


class SupervisorServices:
    """One supervisord for this installation, on a socket of its own."""

    name = "supervisor"

    def __init__(self, layout: Layout, programs: Sequence[Program]) -> None:
        self.programs = programs
        self._layout = layout
        self._conf = layout.config / "supervisord.conf"
        self._socket = layout.config / SOCKET

    def install(self, journal: InstallationJournal) -> bool:
        text = self._text()
        changed = not self._conf.exists() or self._conf.read_text(encoding="utf-8") != text
        if changed:
            journal.add("file", self._conf)
            write_atomic(self._conf, text.encode())
        return self._install_cron(journal) or changed

    def start(self, names: Sequence[str]) -> None:
        if self._runs():
            self._control("update")
        else:
            remedy = (
                f"Its log is {self._layout.logs / 'supervisord.log'}; correct what it says, then run hmem init again."
            )
            run([*self._program("supervisord"), "-c", str(self._conf)], "Starting supervisord", remedy, **_how())
        for name in names:
            if name in self.stopped():
                self._control("start", name)

    def restart(self, names: Sequence[str]) -> None:
        for name in names:
            self._control("restart", name)

    def stop(self, names: Sequence[str]) -> None:
        for name in names:
            if self._runs() and name not in self.stopped():
                self._control("stop", name)

    def stopped(self) -> list[str]:
        done = self._ask("status")
        running = {
            line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] in (["RUNNING"], ["STARTING"])
        }
        return [program.name for program in self.programs if program.name not in running]

    def remove(self, journal: InstallationJournal) -> None:  # noqa: ARG002 - what is ours shows here without it
        if self._runs():
            self._control("stop", "all")
            self._control("shutdown")
        self._wait_until_ended()
        if _MARK in (crontab := _crontab()):
            _write_crontab("".join(f"{line}\n" for line in _without_ours(crontab)))
        self._conf.unlink(missing_ok=True)

    def _wait_until_ended(self) -> None:
        """Also of one whose socket is gone, which cannot be asked any more."""
        end = time.monotonic() + END_SECONDS
        while pid := self._pid():
            if not self._runs():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            if time.monotonic() > end:
                raise InstallationIncomplete(
                    f"supervisord (process {pid}) does not end, so its programs still run. End it (kill {pid}), then run hmem init --undo again."
                )
            time.sleep(0.5)

    def _pid(self) -> int:
        """The process of our supervisord, or 0 if it does not run."""
        try:
            pid = int((self._layout.config / "supervisord.pid").read_text(encoding="ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return 0
        return pid if str(self._conf).encode() in words else 0

    def after_restart(self) -> str:
        if _MARK in _crontab():
            return ""
        return (
            "Neither systemd nor cron runs here, so nothing starts after a restart of this host. In a container, make this its command: "
            f"{' '.join(self._program('supervisord'))} -n -c {self._conf}"
        )

    def _text(self) -> str:
        layout = self._layout
        head = _HEAD.format(
            socket=self._socket, logs=layout.logs, run=layout.config, user="user=root\n" if layout.day_user else ""
        )
        return head + "".join(self._section(program, number) for number, program in enumerate(self.programs))

    def _section(self, program: Program, number: int) -> str:
        names = {"HOME": str(program.home), "HMEM_CONFIG": str(self._layout.settings_file)}
        names |= {"USER": program.account, "LOGNAME": program.account} if program.account else {}
        return _PROGRAM.format(
            name=program.name,
            command=" ".join(_quoted(word) for word in program.command),
            priority=100 + number,
            environment=",".join(f"{name}={_quoted(value)}" for name, value in names.items()),
            user=f"user={program.account}\n" if program.account else "",
            stop_seconds=program.stop_seconds,
            logs=self._layout.logs,
        )

    def _runs(self) -> bool:
        return self._socket.exists() and self._ask("pid").returncode == 0

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [*self._program("supervisorctl"), "-c", str(self._conf), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **_how())

    def _control(self, *words: str) -> None:
        done = self._ask(*words)
        if _STARTED_ALREADY in done.stdout and words[0] == "start":  # supervisor itself has, since it was asked
            return
        if done.returncode != 0 or "ERROR" in done.stdout:
            said = " ".join((done.stdout + done.stderr).split())[-300:]
            log = self._layout.logs / f"{words[-1]}.log"
            raise InstallationIncomplete(
                f"supervisorctl {' '.join(words)} failed: {said}. The program's log is {log}; correct what it says, then try again."
            )

    @staticmethod
    def _program(name: str) -> list[str]:
        return [str(BINARIES / name)]

    def _install_cron(self, journal: InstallationJournal) -> bool:
        known = _crontab()
        if shutil.which("crontab") is None or not _cron_runs() or _MARK in known:
            return False
        journal.add("cron", "@reboot")
        line = f"@reboot {' '.join(self._program('supervisord'))} -c {self._conf}"
        _write_crontab("\n".join([*filter(None, known.splitlines()), _MARK, line]) + "\n")
        return True


def _quoted(word: str) -> str:
    """For supervisor's configuration: percent signs doubled, in quotes if it has a blank."""
    word = word.replace("%", "%%")
    return f'"{word}"' if any(mark in word for mark in " ,;\"'") else word


def _how() -> dict[str, Any]:
    return {"env": environment.clean(own=True), "cwd": "/"}


def _cron_runs() -> bool:
    return any(Path(place).exists() for place in ("/run/crond.pid", "/var/run/crond.pid", "/run/cron.pid"))


def _crontab() -> str:
    """This user's, or nothing. InstallationIncomplete if there is one that cannot be read, since it would be lost."""
    if shutil.which("crontab") is None:
        return ""
    done = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)
    if done.returncode != 0 and "no crontab" not in done.stderr.lower():
        raise InstallationIncomplete(f"crontab -l fails ({done.stderr.strip()}). Correct that, then try again.")
    return done.stdout


def _without_ours(crontab: str) -> list[str]:
    lines = crontab.splitlines()
    at = lines.index(_MARK)
    return lines[:at] + lines[at + 2 :]


def _write_crontab(text: str) -> None:
    done = subprocess.run(["crontab", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InstallationIncomplete(
            f"crontab refuses the line that starts the programs ({done.stderr.strip()}). Add it by hand, or start them by hand."
        )
