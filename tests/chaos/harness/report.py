"""What a check of chaos is, what it is given, and what it answers.

A check is a function `(Bench) -> Outcome` under the decorator `@chaos(name, description)`; `load_all` imports the modules that hold them.
`Bench` gives it fresh installations (each with a redis-server of its own), the number of rounds and a seed; `prove` runs one in a test.
"""

from __future__ import annotations

import importlib
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.support.machine import answers, free_port, wait_for
from tests.support.world import World

#: An installation without vectors: a night takes a fraction of a second.
LIGHT = {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}
#: One with both vector indexes, of which Chroma is asked: it is the one that more can happen to.
WHOLE = {"NIGHT_INDEXES": "sqlite,chroma", "MEMORY_BACKEND": "chroma"}


@dataclass
class Outcome:
    """Counts of a check. `lost`, `doubled` and `torn` must be 0; a note says what was found, or what was covered."""

    rounds: int = 0
    faults: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return self.lost == self.doubled == self.torn == 0

    def add(self, other: Outcome) -> Outcome:
        """Count another outcome in; this one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)
        return self

    def found(self, kind: str, note: str) -> None:
        """One more violation: `lost`, `doubled` or `torn`."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.notes.append(f"{kind}: {note}")

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


class RedisServer:
    """A redis-server process on its own free port, with an append-only file in its directory; it may be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        command = [
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
            "--maxmemory-policy", "noeviction", "--dir", str(self.directory),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with Redis.from_url(self.url) as client:
            wait_for(lambda: answers(client), "redis-server to start")

    def stop(self, *, kill: bool = False) -> None:
        """End it (with `kill` by SIGKILL, as a crash would) and wait until it is gone."""
        if self.process is not None:
            self.process.kill() if kill else self.process.terminate()
            self.process.wait(timeout=600)
            self.process = None


@dataclass
class Bench:
    """Where a check works: a fresh directory, how many rounds it shall run, the seed of all that it draws."""

    root: Path
    rounds: int
    seed: int
    quiet: bool = False
    servers: dict[str, RedisServer] = field(default_factory=dict)
    worlds: dict[str, World] = field(default_factory=dict)

    def random(self, name: str = "") -> random.Random:
        """A generator that follows from the seed and the name alone."""
        return random.Random(f"{self.seed}:{name}")

    def world(self, name: str, *, light: bool = False) -> World:
        """A fresh installation with a redis-server of its own (`servers[name]`)."""
        root = self.root / name
        root.mkdir(parents=True)
        server = self.servers[name] = RedisServer(root / "redis")
        made = World(root, Redis.from_url(server.url), server.url, dict(LIGHT if light else WHOLE))
        self.worlds[name] = made
        return made

    def close_world(self, name: str) -> None:
        """End the installation and remove its files: for checks that use many of them."""
        self._end(name)
        shutil.rmtree(self.root / name, ignore_errors=True)

    def close(self) -> None:
        for name in list(self.worlds):
            self._end(name)

    def _end(self, name: str) -> None:
        world = self.worlds.pop(name)
        for dispatcher in world.dispatchers:
            dispatcher.stop()
        world.redis.close()
        self.servers.pop(name).stop(kill=True)

    def say(self, text: str) -> None:
        """A line of progress."""
        if not self.quiet:
            sys.stderr.write(f"  {text}\n")
            sys.stderr.flush()


@dataclass(frozen=True)
class Check:
    name: str
    run: Callable[[Bench], Outcome]
    description: str


CHECKS: dict[str, Check] = {}


def chaos(name: str, description: str) -> Callable[[Callable[[Bench], Outcome]], Callable[[Bench], Outcome]]:
    """Register a check under its name."""

    def register(run: Callable[[Bench], Outcome]) -> Callable[[Bench], Outcome]:
        CHECKS[name] = Check(name, run, description)
        return run

    return register


def load_all() -> dict[str, Check]:
    """All checks, by name: every module of tests/chaos/checks is imported, in order of their names."""
    checks = Path(__file__).parent.parent / "checks"
    paths = (path.relative_to(checks) for path in checks.rglob("*.py") if not path.stem.startswith("_"))
    for module in sorted(".".join(path.with_suffix("").parts) for path in paths):
        importlib.import_module(f"tests.chaos.checks.{module}")
    return CHECKS


def run_check(check: Check, root: Path, rounds: int, seed: int, *, quiet: bool) -> Outcome:
    """What the check found; its servers end with it."""
    (root / check.name).mkdir(parents=True, exist_ok=True)
    bench = Bench(root / check.name, rounds, seed, quiet)
    try:
        return check.run(bench)
    finally:
        bench.close()


def prove(name: str, root: Path, rounds: int) -> Outcome:
    """For a test: run the check of that name; the test fails unless nothing was lost, doubled or torn."""
    found = run_check(load_all()[name], root, rounds, 1, quiet=True)
    if not found.clean:
        pytest.fail(f"{name} with seed 1: {found.to_json()}")
    return found
