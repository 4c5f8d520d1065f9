"""h-cli's bot and dispatcher as processes, and a Claude for both dispatchers: the real CLI against a loopback Messages API."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.servers.messages_api import MessagesApi
from tests.servers.telegram_api import TOKEN, TelegramApi
from tests.support.machine import wait_for
from tests.support.world import REAL_CLAUDE as CLAUDE
from tests.support.world import REPOSITORY, SECRET

PYTHON = REPOSITORY / ".venv" / "interop" / "bin" / "python"
#: A question that holds "slow <name>" is not answered before that name is let go.
_SLOW = re.compile(r"slow (\w+)")
#: The person's newest words, however a dispatcher wraps them: every question of these tests ends like this.
QUESTION = re.compile(r"(question \w+[^{}\n\u2060]*?\?)")


@dataclass
class Peers:
    """Where h-cli's files lie, and where its processes leave theirs."""

    directory: Path
    root: Path
    processes: list[Peer] = field(default_factory=list)

    @property
    def chunks(self) -> Path:
        return self.root / "sessions"

    def bot(self, redis_url: str, api: TelegramApi, chats: list[int], *, patience: int = 300) -> Peer:
        """h-cli's bot, which waits so many seconds for an answer. It has started when it asks for updates."""
        before = len(api.called("getUpdates")) + api.polls
        made = self._start(
            "run_bot.py",
            BOT_API_URL=api.url,
            TELEGRAM_BOT_TOKEN=TOKEN,
            REDIS_URL=redis_url,
            ALLOWED_CHATS=",".join(map(str, chats)),
            MAX_CONCURRENT_TASKS="20",
            TASK_TIMEOUT=str(patience),
        )
        wait_for(lambda: len(api.called("getUpdates")) + api.polls > before or not made.alive, "h-cli's bot")
        assert made.alive, made.said
        return made

    def dispatcher(self, redis_url: str, claude: Claude, *, seconds: int = 280) -> Peer:
        """h-cli's dispatcher, with the real Claude CLI as `claude` on its PATH; its limit of an answer in seconds."""
        made = self._start(
            "run_dispatcher.py",
            REDIS_URL=redis_url,
            HEARTBEAT_FILE=str(self.root / "heartbeat"),
            CLAUDE_SECONDS=str(seconds),
            PATH=f"{claude.without_mcp(self.root)}:/usr/local/bin:/usr/bin:/bin",
            **claude.environment,
        )
        wait_for(lambda: (self.root / "heartbeat").exists() or not made.alive, "h-cli's dispatcher")
        assert made.alive, made.said
        return made

    def _start(self, runner: str, **environment: str) -> Peer:
        log = self.root / f"{runner}-{time.monotonic_ns()}.log"
        common = {
            "HCLI_DIR": str(self.directory),
            "HOME": str(self.root),
            "LOG_DIR": str(self.root / "logs"),
            "LOG_LEVEL": "WARNING",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "RESULT_HMAC_KEY": SECRET,
            "SESSION_CHUNK_DIR": str(self.chunks),
        }
        command = [str(PYTHON), str(Path(__file__).parent / runner)]
        with log.open("wb") as stream:
            process = subprocess.Popen(command, env=common | environment, stdout=stream, stderr=stream)
        self.processes.append(Peer(process, log, self.root / "logs"))
        return self.processes[-1]

    def stop(self) -> None:
        for peer in self.processes:
            peer.stop(signal.SIGKILL)


@dataclass
class Peer:
    process: subprocess.Popen[bytes]
    log: Path
    logs: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def said(self) -> str:
        """All that h-cli's processes have logged as a warning or worse."""
        files = [self.log, *sorted(self.logs.rglob("error.log"))]
        return "\n".join(one.read_text(encoding="utf-8") for one in files)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.alive:
            self.process.send_signal(number)
        self.process.wait(timeout=600)


class Claude:
    """The real CLI, and the model that it asks: `with Claude() as claude`.

    A question (QUESTION) gets "Answer to <question>", with a long tail where it says "long"; one with "slow NAME" waits for `let_go(NAME)`.
    """

    def __init__(self) -> None:
        if not CLAUDE.exists():
            pytest.fail("The Claude CLI is not installed. Run scripts/setup --dev --with-claude.")
        self._let_go: dict[str, threading.Event] = {}
        self._change = threading.Condition()
        self.asked: list[str] = []  # questions, in the order in which the model was asked
        self.api = MessagesApi(self._reply)

    def __enter__(self) -> Claude:
        self.api.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for event in list(self._let_go.values()):
            event.set()
        self.api.__exit__(None, None, None)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": self.api.url,
            "ANTHROPIC_API_KEY": "test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def without_mcp(self, root: Path) -> Path:
        """A directory with a `claude` that leaves out h-cli's --mcp-config: its file is in a container of h-cli's."""
        folder = root / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "claude"
        script.write_text(
            '#!/bin/bash\nkept=()\nwhile [ $# -gt 0 ]; do\n  if [ "$1" = --mcp-config ]; then shift 2; else kept+=("$1"); shift; fi\ndone\n'
            f'exec {CLAUDE} "${{kept[@]}}"\n'
        )
        script.chmod(0o755)
        return folder

    def let_go(self, name: str) -> None:
        self._event(name).set()

    def requests_for(self, question: str) -> list[dict[str, Any]]:
        """Requests whose newest words are this question."""
        return [one for one in list(self.api.requests) if _newest(one) == question]

    def _event(self, name: str) -> threading.Event:
        with self._change:
            return self._let_go.setdefault(name, threading.Event())

    def _reply(self, request: dict[str, Any]) -> str:
        question = _newest(request)
        self.asked.append(question)
        if slow := _SLOW.search(question):
            self._event(slow[1]).wait(600)
        return answer_to(question)


def answer_to(question: str) -> str:
    """What the model says; a long one has 300 lines, more than two messages of Telegram hold."""
    tail = "".join(f"\nline {number} of {question}" for number in range(300)) if " long" in question else ""
    return f"Answer to {question}{tail}"


def _newest(request: dict[str, Any]) -> str:
    said = [one for one in request["messages"] if one["role"] == "user"][-1]["content"]
    text = said if isinstance(said, str) else "\n".join(block.get("text", "") for block in said)
    found = QUESTION.findall(text)
    return str(found[-1]) if found else ""
