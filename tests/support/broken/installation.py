"""A sound installation of real parts, for those who break it: redis-server, two nights, a dispatcher with the real Claude CLI, a loopback API.

Root gives up its right to override permissions, so that a directory that may not be written is one.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.messages_api import MessagesApi
from tests.support.machine import redis_server, wait_for
from tests.support.processes import forked
from tests.support.world import World, real_claude

CHAT, QUESTION, ANSWER = "9912", "What is the boiler code?", "The boiler code is 4711."
#: Seconds that a question waits for its answer.
PATIENCE = 300.0


@dataclass(frozen=True)
class Said:
    """What a command ended with and printed, both streams."""

    code: int
    text: str


@dataclass
class Installation(World):
    """`server`: its redis-server. Commands and dispatcher have no right over files that their user has not."""

    server: subprocess.Popen[bytes] | None = None
    running: forked.ForkedProcess | None = None
    processes: list[forked.ForkedProcess] = field(default_factory=list)

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def archive(self) -> Path:
        return self.night_dir / "archive"

    def says(self, *command: str, **more: str) -> Said:
        """Run hmem or hmem-night to its end."""
        done = forked.run(list(command), 600, self.variables(**more), everybody=True)
        return Said(done.returncode, done.stdout + done.stderr)

    def ask(self, seconds: float = PATIENCE) -> Said:
        """What a person gets who writes in the chat."""
        return self.says("hmem", "talk", CHAT, "--say", QUESTION, "--timeout", f"{seconds:g}")

    def start(self) -> bool:
        """Start the dispatcher; whether it runs."""
        log = self.root / "dispatcher.log"
        log.write_bytes(b"")
        running = self.running = forked.ForkedProcess(["hmem", "run"], self.variables(), log, log, everybody=True)
        self.processes.append(running)
        wait_for(lambda: b"dispatcher started" in log.read_bytes() or running.poll() is not None, "the dispatcher")
        return running.poll() is None

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(600)


@contextmanager
def empty_installation(folder: Path) -> Iterator[Installation]:
    """Freshly set up: directories as the README makes them, nothing said yet, nothing running."""
    with ExitStack() as stack:
        server, client, url = stack.enter_context(redis_server(folder / "redis", "--save", "", "--appendonly", "yes"))
        api = stack.enter_context(MessagesApi(lambda _: ANSWER))
        made = Installation(folder, client, url, server=server)
        made.environment = real_claude(api.url)
        for directory in (made.memory_dir, made.state_dir, made.night_dir):
            directory.mkdir(mode=0o700, exist_ok=True)
        stack.callback(made.end)
        yield made


@contextmanager
def installation(folder: Path, nights: Path) -> Iterator[Installation]:
    """The same after two nights (`after_nights`), with a turn of today."""
    for name in ("memory", "night"):
        shutil.copytree(nights / name, folder / name, symlinks=True)
    with empty_installation(folder) as made:
        made.redis.set("hcli:mem:night:last", (nights / "last.json").read_bytes())
        made.say("today", "the plumber comes at noon", timestamp=time.time())
        yield made


def after_nights(folder: Path) -> Path:
    """A directory with what two nights leave: memory/, night/ and last.json."""
    with empty_installation(folder) as made:
        for task_id, content in (("t1", "the boiler code is 4711"), ("t2", "the cat is called Minka")):
            made.say(task_id, content)
            made.night()
        (folder / "last.json").write_bytes(made.redis.get("hcli:mem:night:last") or b"")  # type: ignore[arg-type]
    return folder
