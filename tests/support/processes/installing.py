"""An installation by `hmem init` in an empty home, against stand-ins for Telegram and the provider."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console

from dispatcher.installation.init.in_progress import InstallationInProgress, Terminal
from dispatcher.installation.layout import Layout, of_host
from tests.servers.messages_api import MessagesApi
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.support import machine
from tests.support.world import BINARIES

CHAT = 9912
#: What `hmem init` says where no systemd runs.
BY_HAND = "start these programs yourself"


class ScriptedTerminal(Terminal):
    """Somebody who gives these answers, in this order."""

    def __init__(self, *answers: str, unattended: bool = False) -> None:
        self.written = io.StringIO()
        super().__init__(unattended=unattended, console=Console(file=self.written, width=300))
        self._script = list(answers)
        self.asked: list[str] = []

    def _read(self, prompt: str, *, secret: bool = False) -> str:
        self.asked.append(prompt.strip())
        return self._script.pop(0)

    @property
    def text(self) -> str:
        return self.written.getvalue()


def layout_in(root: Path) -> Layout:
    """As for root, below `root`, and for this user."""
    made = of_host(root)
    return Layout("own-user", made.config, made.state, made.night, made.memory, made.redis, made.home, made.claude)


def installation_in(root: Path, terminal: Terminal, values: dict[str, str] | None = None) -> InstallationInProgress:
    layout = layout_in(root)
    layout.config.mkdir(parents=True, exist_ok=True)
    return InstallationInProgress(layout, terminal, dict(values or {}))


class NewHome:
    """A home in which nothing is, short enough for sockets, and what `hmem` says in it."""

    def __init__(self, home: Path, telegram: TelegramApi, messages: MessagesApi) -> None:
        self.home, self.telegram, self.messages = home, telegram, messages
        self.programs: list[subprocess.Popen[bytes]] = []
        self.config = home / ".config" / "hmem"
        self.data = home / ".local" / "share" / "hmem"
        self.given = {
            "TELEGRAM_API_URL": telegram.url,
            "TELEGRAM_BOT_TOKEN": TOKEN,
            "ALLOWED_CHATS": str(CHAT),
            "ANTHROPIC_BASE_URL": messages.url,
            "ANTHROPIC_API_KEY": "sk-ant-api-test",
        }

    def variables(self, *, given: bool = True) -> dict[str, str]:
        path = f"{BINARIES}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {"HOME": str(self.home), "PATH": path} | (self.given if given else {})

    def start(self, *words: str, given: bool = True) -> subprocess.Popen[str]:
        command = [str(BINARIES / "hmem"), "init", "--user", *words]
        return subprocess.Popen(
            command, env=self.variables(given=given), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )  # fmt: skip

    def init(self, *words: str, given: bool = True) -> tuple[int, str]:
        """Exit code and output."""
        process = self.start(*words, given=given)
        output, _ = process.communicate(timeout=900)
        return process.returncode, output

    def install(self) -> str:
        """Nobody is asked, and what `hmem init` says is to be started is started; what it says in the end."""
        code, output = self.init("--yes")
        if code and BY_HAND in output:
            self.start_programs(output)
            code, output = self.init("--yes")
        assert code == 0, output
        return output

    def start_programs(self, output: str) -> None:
        """Carry out the commands that `hmem init` has printed."""
        commands = [line.strip() for line in output.splitlines() if line.strip().startswith("HMEM_CONFIG=")]
        assert commands, output
        for command in commands:
            self.programs.append(
                subprocess.Popen(
                    command, shell=True, env=self.variables(given=False), start_new_session=True,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip

    def stop_programs(self) -> None:
        for program in self.programs:
            os.killpg(program.pid, signal.SIGTERM)
        for program in self.programs:
            program.wait()
        self.programs.clear()

    def run(self, *words: str, program: str = "hmem") -> subprocess.CompletedProcess[str]:
        command = [str(BINARIES / program), *words]
        own = self.variables(given=False)
        return subprocess.run(command, env=own, capture_output=True, text=True, timeout=900, check=False)

    def processes(self) -> list[int]:
        """Those that run in this home."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.home).encode() in (place / "cmdline").read_bytes() + (place / "environ").read_bytes():
                    found.append(int(place.name))
            except OSError:
                continue
        return [pid for pid in found if pid != os.getpid()]


@contextmanager
def new_home() -> Iterator[NewHome]:
    short = tempfile.TemporaryDirectory(prefix="h", dir="/tmp", ignore_cleanup_errors=True)
    with short as home, TelegramApi() as telegram, MessagesApi() as messages:
        made = NewHome(Path(home), telegram, messages)
        try:
            yield made
        finally:
            for pid in made.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for program in made.programs:
                program.wait()


def path_without(folder: Path, *programs: str) -> str:
    """A PATH on which every program of this host is, but those."""
    folder.mkdir()
    for place in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for one in Path(place).glob("*"):
            if one.name not in programs and not (folder / one.name).exists():
                (folder / one.name).symlink_to(one)
    return str(folder)


def script(folder: Path, name: str, lines: Sequence[str]) -> Path:
    return machine.script(folder / name, "\n".join(["#!/bin/sh", *lines, ""]))
