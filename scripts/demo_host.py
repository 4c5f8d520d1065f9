"""The demo's host: a separate redis-server, dispatcher and nights in one temporary directory, stopped in every case."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import redis

from shared.config.settings import setting_names
from shared.turns.records import RecordRefused, dumps
from shared.turns.signed import Result
from shared.wire import keys

SCRIPTS = Path(__file__).resolve().parent
SAMPLE = SCRIPTS / "demo_sample.jsonl"
STAND_IN = SCRIPTS / "stand_in_claude.py"
#: The directory of hmem and hmem-night.
BIN = Path(sys.executable).parent

#: How long after its message an answer of the two days is dated. Seconds.
PLAYED_SECONDS = 20

#: Time limits of the demo's steps. Seconds.
START_SECONDS = 20.0
ANSWER_SECONDS = 60.0
COMMAND_SECONDS = 300.0
STOP_SECONDS = 3.0
POLL_SECONDS = 0.02
WATCH_SECONDS = 0.2


class DemoFailed(Exception):
    """What went wrong, in a sentence."""


@dataclass(frozen=True)
class Message:
    """A line of the sample. An exchange has a day, a time and an answer; a question has the words that answer it."""

    chat_id: int
    name: str
    message: str
    day: int = 0
    time: str = ""
    answer: str = ""
    expects: str = ""


class Host:
    """One machine as day host and night host, in its own directory; `programs` is the directory of its hmem and hmem-night."""

    def __init__(self, directory: Path, programs: Path = BIN) -> None:
        self.directory, self._programs = directory, programs
        for name in ("logs", "redis", "home", "tmp"):
            (directory / name).mkdir()
        (directory / "empty.toml").touch()
        self._secret = secrets.token_hex(32)
        self._socket = directory / "redis.sock"
        self._client = redis.Redis(unix_socket_path=str(self._socket), socket_timeout=30)
        self._redis: subprocess.Popen[bytes] | None = None
        self._dispatcher: subprocess.Popen[bytes] | None = None

    def start_redis(self) -> None:
        """Only on a socket in the directory, and only in memory."""
        place = ["--port", "0", "--unixsocket", str(self._socket), "--dir", str(self.directory / "redis")]
        try:
            self._redis = self._spawn(
                "redis", ["redis-server", *place, "--save", "", "--appendonly", "no"], self._environment()
            )
        except FileNotFoundError as error:
            raise DemoFailed("redis-server is not installed. Run scripts/setup, which installs it.") from error
        self._wait(self._redis_answers, START_SECONDS, "Redis did not start")

    def _redis_answers(self) -> bool:
        with suppress(redis.ConnectionError):
            return bool(self._client.ping())
        return False

    def start_dispatcher(self, claude: Path, *, own_home: bool = False) -> None:
        """`hmem run` with that CLI. `own_home`: with the user's HOME, which has the CLI's login."""
        self._dispatcher = self._spawn(
            "dispatcher", [str(self._programs / "hmem"), "run"], self._environment(claude, own_home)
        )

    def wait_until_served(self) -> None:
        """Until the dispatcher has opened the release with its vectors."""
        self._wait(self._serves, START_SECONDS, "The dispatcher did not open the release")

    def _serves(self) -> bool:
        runs = cast(dict[bytes, bytes], self._client.hgetall(keys.RELEASE)).values()
        return bool(runs) and all(int(run) > 0 for run in runs)

    def show_page(self) -> None:
        """`hmem web` on a free port, until it is stopped (Ctrl-C)."""
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        with suppress(KeyboardInterrupt):
            subprocess.run(
                [str(self._programs / "hmem"), "web", "--listen", str(port)], env=self._environment(), check=False
            )

    def stop_dispatcher(self) -> None:
        if self._dispatcher:
            end(self._dispatcher)

    def stop(self) -> None:
        self.stop_dispatcher()
        self._client.close()
        if self._redis:
            end(self._redis)

    def _wait(self, arrived: Callable[[], Any], seconds: float, complaint: str) -> Any:
        """The value of `arrived()` once it is true. DemoFailed if a server ends meanwhile."""
        deadline = time.monotonic() + seconds
        while not (answer := arrived()):
            for name, process in (("redis-server", self._redis), ("hmem run", self._dispatcher)):
                if process and process.poll() is not None:
                    raise DemoFailed(f"{complaint}: {name} ended with exit code {process.returncode}.")
            if time.monotonic() > deadline:
                raise DemoFailed(f"{complaint}: waited {seconds:g} s.")
            time.sleep(POLL_SECONDS)
        return answer

    def _spawn(
        self, name: str, command: list[str], environment: dict[str, str], stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        """A child that logs to a file. In a separate session, so that Ctrl-C reaches only the demo, which stops everything in order."""
        with self.log(name).open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                env=environment,
                cwd=self.directory,
                start_new_session=True,
            )

    @property
    def places(self) -> dict[str, str]:
        """The settings and variables that keep what lasts inside the directory."""
        names = {"HOME": "home", "HMEM_CONFIG": "empty.toml"}
        names |= {"HMEM_MEMORY_DIR": "memory", "HMEM_STATE_DIR": "state", "HMEM_NIGHT_DIR": "night"}
        inside = {name: str(self.directory / place) for name, place in names.items()}
        return inside | {"REDIS_URL": f"unix://{quote(str(self._socket))}", "RESULT_HMAC_KEY": self._secret}

    def _environment(self, claude: Path = STAND_IN, own_home: bool = False) -> dict[str, str]:
        """The caller's environment without the settings of hmem (the demo uses the defaults)."""
        settings = set(setting_names())
        return {
            **{name: value for name, value in os.environ.items() if name.upper() not in settings},
            **{name: value for name, value in self.places.items() if not (own_home and name == "HOME")},
            "PATH": f"{self._programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "TMPDIR": str(self.directory / "tmp"),
            "PYTHONIOENCODING": "utf-8",
            "CLAUDE_BIN": str(claude),
            "CLAUDE_STAND_IN_SAMPLE": str(SAMPLE),
        }

    def command(self, name: str, *arguments: str, check: bool = True, watch: Callable[[], None] | None = None) -> str:
        """Standard output of `hmem …` or `hmem-night …`; its standard error goes to a log. `check`: it must end with 0. `watch` is called while it
        runs."""
        deadline = time.monotonic() + COMMAND_SECONDS
        process = self._spawn(
            name, [str(self._programs / name), *arguments], self._environment(), stdout=subprocess.PIPE
        )
        try:
            while True:
                with suppress(subprocess.TimeoutExpired):
                    output, _ = process.communicate(timeout=WATCH_SECONDS)
                    break
                if time.monotonic() > deadline:
                    process.kill()
                    raise DemoFailed(f"{name} {arguments[0]} did not end within {COMMAND_SECONDS:g} s.")
                if watch:
                    watch()
        except KeyboardInterrupt:
            process.communicate(timeout=COMMAND_SECONDS)  # killing a night would leave its children running
            raise
        if check and process.returncode != 0:
            raise DemoFailed(
                f"{name} {arguments[0]} ended with exit code {process.returncode}. Its log ends:\n{tail(self.log(name))}"
            )
        return output.decode("utf-8", "replace").strip()

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def enqueue(self, task_id: str, message: Message, submitted_at: datetime) -> None:
        """As the bot does."""
        task = {
            "task_id": task_id,
            "message": message.message,
            "chat_id": message.chat_id,
            "user_id": f"demo-{message.name}",
            "submitted_at": submitted_at.isoformat(),
            "name": message.name,
        }
        self._client.rpush(keys.TASKS, dumps(task))

    def collect(self, task_id: str, seconds: float = ANSWER_SECONDS) -> Result:
        """As the bot does: poll, verify, delete."""
        raw = self._wait(lambda: self._client.getdel(keys.result(task_id)), seconds, f"Task {task_id} was not answered")
        try:
            return Result.verified(self._secret, task_id, raw)
        except RecordRefused as error:
            raise DemoFailed(f"The result of task {task_id} does not come from the dispatcher: {error}.") from error

    def date_answer(self, task_id: str, asked_at: datetime) -> None:
        """Date an answer as if it had been given shortly after its message, two days ago."""
        key = keys.turn(task_id, "asst")
        turn = json.loads(cast(bytes, self._client.get(key)))
        self._client.set(key, dumps(turn | {"timestamp": asked_at.timestamp() + PLAYED_SECONDS}))

    def end_session(self, chat_id: int) -> None:
        """What the bot does at /new."""
        self._client.delete(*(key(str(chat_id)) for key in (keys.session, keys.history, keys.size)))

    def steps_done(self) -> int:
        """How many steps of the first night are done."""
        return sum(path.is_dir() and path.suffix != ".tmp" for path in self.directory.glob("night/nights/1/*"))


def end(process: subprocess.Popen[bytes]) -> None:
    """At the first signal the dispatcher finishes its running tasks, at the second it drops them."""
    for stop in (process.terminate, process.terminate, process.kill):
        stop()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
            return


def tail(log: Path, lines: int = 10) -> str:
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


@contextmanager
def temporary_host(*, keep: bool, programs: Path = BIN) -> Iterator[Host]:
    """A host that is stopped and removed in every case; after an error the end of the last server's log is shown."""
    host = Host(Path(tempfile.mkdtemp(prefix="hmem-demo-")), programs)
    try:
        yield host
    except Exception:
        log = host.log("dispatcher")
        log = log if log.exists() else host.log("redis")
        if words := tail(log):
            print(f"{log.name} ends:\n{words}", file=sys.stderr)
        raise
    finally:
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        # A second Ctrl-C must not interrupt the cleanup.
        handlers = [signal.signal(number, signal.SIG_IGN) for number in ends]
        host.stop()
        if not keep:
            shutil.rmtree(host.directory, ignore_errors=True)
        for number, handler in zip(ends, handlers, strict=True):
            signal.signal(number, handler)
