"""A world of directories and settings, the commands themselves, and waiting for what they do."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis, RedisError

from shared.config.settings import Settings, load_settings, setting_fields
from shared.turns.records import Tombstone, Turn, dumps
from tests.support.machine import wait_for
from tests.support.processes import forked

REPOSITORY = Path(__file__).parent.parent.parent
BINARIES = Path(sys.executable).parent
#: The real CLI: the pinned one, or another that TEST_CLAUDE names, such as npm's newest.
REAL_CLAUDE = Path(os.environ.get("TEST_CLAUDE") or BINARIES / "claude")
STAND_IN = REPOSITORY / "scripts" / "stand_in_claude.py"
#: `MEMORY_DEADLINE_MS` where a test says nothing else.
LOOKUP_MS = "20000"
SECRET = "test-secret-of-this-test-run"


def real_claude(api_url: str, **more: str) -> dict[str, str]:
    """The variables of the real CLI, which has no account and asks this server alone."""
    if not REAL_CLAUDE.exists():
        pytest.fail("The Claude CLI is not installed. Run scripts/setup --dev --with-claude.")
    own = {"CLAUDE_BIN": str(REAL_CLAUDE), "ANTHROPIC_BASE_URL": api_url, "ANTHROPIC_API_KEY": "test"}
    return own | {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"} | more


@dataclass
class World:
    """Directories and settings of one installation, and its commands. `light` means: keywords only, no vectors."""

    root: Path
    redis: Redis
    url: str
    environment: dict[str, str] = field(default_factory=dict)
    dispatchers: list[Dispatcher] = field(default_factory=list)

    @property
    def memory_dir(self) -> Path:
        return self.root / "memory"

    @property
    def night_dir(self) -> Path:
        return self.root / "night"

    def variables(self, **more: str) -> dict[str, str]:
        """The whole environment of a command."""
        return {
            "PATH": f"{BINARIES}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.root),
            "REDIS_URL": self.url,
            "RESULT_HMAC_KEY": SECRET,
            "HMEM_MEMORY_DIR": str(self.memory_dir),
            "HMEM_STATE_DIR": str(self.root / "state"),
            "HMEM_NIGHT_DIR": str(self.night_dir),
            "OWNER_KEY_FILE": str(self.root / "owner.key"),
            "CLAUDE_BIN": str(STAND_IN),
            "MEMORY_DEADLINE_MS": LOOKUP_MS,  # the machine may be busy
            **self.environment,
            **more,
        }

    def settings(self, **more: Any) -> Settings:
        given = {name.lower(): value for name, value in self.variables().items()}
        values = {name: value for name, value in given.items() if name in setting_fields()}
        return load_settings(**{**values, **more})

    def command(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Run hmem or hmem-night to its end, without input; in a forked process (tests/support/processes/forked.py)."""
        environment = self.variables(**more)
        if any(name in environment for name in forked.OWN_PROCESS):
            done = subprocess.run(
                [str(BINARIES / arguments[0]), *arguments[1:]],
                env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
            )  # fmt: skip
        else:
            done = forked.run(list(arguments), 600, environment)
        if check and done.returncode != 0:
            pytest.fail(f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def status(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """`hmem status` while a dispatcher lives."""
        with sign_of_life(self.redis):
            return self.command("hmem", "status", *arguments, check=check, **more)

    def start_dispatcher(self, **more: str) -> Dispatcher:
        self.dispatchers.append(Dispatcher(self, more))
        return self.dispatchers[-1]

    def start_installed_dispatcher(self, **more: str) -> Dispatcher:
        """The installed command in a Python of its own: where it matters what it imports, and how much memory it takes."""
        self.dispatchers.append(Dispatcher(self, more, installed=True))
        return self.dispatchers[-1]

    def night(self, *, accept: bool = False, **more: Any) -> list[dict[str, Any]]:
        """One `hmem-night run`, in this process."""
        from nightly.night.progress import Reporter
        from nightly.pipeline import run_nights

        return run_nights(self.settings(**more), Reporter(quiet=True), accept=accept)

    def say(self, task_id: str, content: str, *, chat_id: str = "9912", role: str = "user", **more: Any) -> bytes:
        """Write a turn key as the dispatcher would; its name."""
        turn = Turn(task_id, role, chat_id, content, more.pop("timestamp", 1_707_500_000.0), **more)
        key = f"hcli:memory:{task_id}:{role}".encode()
        self.redis.set(key, turn.to_json())
        return key

    def push_tombstone(self, tombstone: Tombstone) -> None:
        """Announce it as `hmem forget` does: signed with the owner's key of this installation, if it erases."""
        from shared.system.owner_key import open_signing

        self.night_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.redis.rpush("hcli:mem:tombstones", open_signing(self.settings()).signed(tombstone).to_json())

    def enqueue(self, task_id: str, message: str, *, chat_id: int | str = 9912, **more: Any) -> bytes:
        """RPUSH a task as the bot does; its bytes."""
        raw = dumps({"task_id": task_id, "message": message, "chat_id": chat_id, "user_id": 1, **more})
        self.redis.rpush("hcli:tasks", raw)
        return raw


@contextmanager
def sign_of_life(client: Redis) -> Iterator[None]:
    """Meanwhile there is that of a dispatcher that has nothing to do. (A night would wait for it to take up its release.)"""
    with suppress(RedisError):
        client.sadd("hcli:mem:workers", "idle")
        client.set("hcli:mem:lease:idle", "0")
    yield
    with suppress(RedisError):
        client.delete("hcli:mem:lease:idle")
        client.srem("hcli:mem:workers", "idle")


class Dispatcher:
    """A running `hmem run`; its log is on `log`."""

    def __init__(self, world: World, more: dict[str, str], *, installed: bool = False) -> None:
        self.log = world.root / f"dispatcher-{time.monotonic_ns()}.log"
        self.log.touch()
        self.process = self._start(world.variables(**more), installed=installed)
        wait_for(
            lambda: b"dispatcher started" in self.log.read_bytes() or self.process.poll() is not None, "the dispatcher"
        )
        if self.process.poll() is not None:
            pytest.fail(f"the dispatcher did not start:\n{self.log.read_text()}")

    def _start(self, environment: dict[str, str], *, installed: bool) -> subprocess.Popen[bytes] | forked.ForkedProcess:
        if not (installed or any(name in environment for name in forked.OWN_PROCESS)):
            return forked.ForkedProcess(["hmem", "run"], environment, self.log, self.log)
        with self.log.open("ab") as stream:
            return subprocess.Popen([str(BINARIES / "hmem"), "run"], env=environment, stdout=stream, stderr=stream)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send the signal (unless it has ended) and wait; its exit code."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(timeout=600)


#: Lets a world live for a while.
Live = Callable[[World], object]


@dataclass(frozen=True)
class Snapshot:
    """An installation made once, where many tests begin: its directory, what Redis held (DUMP by key), and the environment of its commands."""

    root: Path
    redis: dict[bytes, bytes]
    environment: dict[str, str]

    @classmethod
    def made(cls, root: Path, redis_url: str, live: Live) -> Snapshot:
        """Let a world live in an empty directory; whatever Redis holds now is lost."""
        with closing(Redis.from_url(redis_url)) as client:
            client.flushall()
            world = World(root, client, redis_url, {"EMBEDDER": "none", "NIGHT_INDEXES": "none"})
            live(world)
            held = {key: client.dump(key) or b"" for key in client.scan_iter()}
        return cls(root, held, world.environment)

    def lay_out(self, world: World) -> World:
        """The same in a world that has not begun."""
        shutil.copytree(self.root, world.root, symlinks=True, dirs_exist_ok=True)
        world.redis.flushall()  # the first test of all makes the snapshot after its own Redis was emptied
        for key, content in self.redis.items():
            world.redis.restore(key, 0, content)
        world.environment = dict(self.environment)
        return world
