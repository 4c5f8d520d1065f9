"""A day host whose Redis can be lost, and another disk for its journal."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from shared.delivery.journal.state import JournalState, read_journal
from tests.chaos.harness.report import RedisServer
from tests.support.machine import wait_for
from tests.support.world import World

#: The scripted CLI: it answers everything.
CLAUDE = Path(__file__).parents[2] / "servers" / "scripted_claude.py"


@dataclass
class LossyHost:
    """`disk` outlives everything that `lose` does."""

    world: World
    server: RedisServer

    @property
    def redis(self) -> Any:
        return self.world.redis

    @property
    def disk(self) -> Path:
        return self.world.root / "disk"

    @property
    def state_dir(self) -> Path:
        return self.world.root / "state"

    @property
    def journal(self) -> JournalState:
        return read_journal(self.disk)

    def lose_redis(self, older: Path | None = None) -> None:
        self.server.stop(kill=True)
        shutil.rmtree(self.server.directory)
        if older:
            shutil.copytree(older, self.server.directory)
        else:
            self.server.directory.mkdir()
        self.server.start()

    def copy_of_redis(self) -> Path:
        kept = self.world.root / "older"
        shutil.copytree(self.server.directory, kept)
        return kept

    def lose_state(self) -> None:
        shutil.rmtree(self.state_dir)

    def kill_dispatchers(self) -> None:
        for dispatcher in self.world.dispatchers:
            dispatcher.stop(signal.SIGKILL)
        self.world.dispatchers.clear()

    def answered(self, *tasks: str) -> None:
        """Wait for these, and until the journal has followed."""
        for task in tasks:
            wait_for(partial(self.redis.exists, f"hcli:mem:done:{task}"), f"{task} to be answered")
        self.followed()

    def followed(self) -> None:
        """Wait until the journal has looked at Redis from now on: of two reports, the second one's look began after the first."""
        since = time.time()
        for _ in range(2):
            wait_for(lambda since=since: self.reported()["at"] > since, "the journal to look again")  # type: ignore[misc]
            since = self.reported()["at"]

    def reported(self) -> dict[str, Any]:
        states = [raw for name, raw in self.redis.hgetall("hcli:mem:journal").items() if name.endswith(b":state")]
        return json.loads(states[0]) if states else {"at": 0.0}

    def asked(self) -> list[str]:
        """Messages that Claude was asked, each time."""
        path = self.world.root / "requests.jsonl"
        return [json.loads(line)["message"] for line in path.read_text().splitlines()] if path.exists() else []

    def turns(self) -> dict[bytes, bytes]:
        found = list(self.redis.scan_iter(match="hcli:memory:*"))
        return dict(zip(found, self.redis.mget(found), strict=True)) if found else {}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LossyHost]:
    server = RedisServer(tmp_path / "redis")
    world = World(tmp_path, Redis.from_url(server.url), server.url)
    (tmp_path / "disk").mkdir()
    world.environment = {
        "EMBEDDER": "none", "NIGHT_INDEXES": "none", "CLAUDE_BIN": str(CLAUDE), "CONSOLIDATION_INTERVAL": "0.3",
        "JOURNAL": str(tmp_path / "disk"), "JOURNAL_SECONDS": "0.1",
    }  # fmt: skip
    yield LossyHost(world, server)
    for dispatcher in world.dispatchers:
        dispatcher.stop(signal.SIGKILL)
    server.stop(kill=True)
    world.redis.close()
