"""Redis dies, hangs or throws everybody out while tasks are queued and running: each is answered once, and nobody asks in a tight loop."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import answers, free_port, wait_for
from tests.support.world import World


class OwnRedis:
    """A server with an append-only file, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.port, self._folder = free_port(), folder
        self.client: Redis = Redis.from_url(f"redis://127.0.0.1:{self.port}/0")
        self.start()

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(lambda: answers(self.client), "redis-server")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnRedis]:
    folder = tmp_path / "redis"
    folder.mkdir()
    made = OwnRedis(folder)
    yield made
    made.client.close()
    made.kill()


@pytest.fixture
def own(tmp_path: Path, server: OwnRedis) -> Iterator[World]:
    world = World(tmp_path, server.client, f"redis://127.0.0.1:{server.port}/0")
    world.environment = {"EMBEDDER": "none", "NIGHT_INDEXES": "none", "MAX_CONCURRENT_TASKS": "3"}
    yield world
    for dispatcher in world.dispatchers:
        dispatcher.stop(signal.SIGKILL)


def answered_once(bot: Bot, tasks: list[str]) -> None:
    assert {bot.receive(task, 60)["output"] for task in tasks} == {"ok"}
    assert len(bot.redis.keys("hcli:memory:*")) == 2 * len(tasks)
    assert sum(int(bot.redis.hget(day, "tasks") or 0) for day in bot.redis.scan_iter("hcli:stats:*")) == len(tasks)
    histories = sum(bot.redis.llen(key) for key in bot.redis.scan_iter("hcli:session_history:*"))
    assert histories == 2 * len(tasks)
    wait_for(lambda: not bot.redis.exists("hcli:mem:busy", "hcli:tasks"), "nothing in flight")


def test_a_redis_that_is_killed_and_comes_back_loses_and_doubles_nothing(own: World, server: OwnRedis) -> None:
    bot, calls = Bot(server.client), own.root / "calls"
    running = own.start_dispatcher(CLAUDE_BIN=script(own, f"echo >> {calls}; sleep 0.3; {SAY} ok"))
    tasks = [bot.send(f"m{number}", f"chat{number % 4}") for number in range(12)]
    for died in range(2):
        wait_for(lambda died=died: calls.exists() and len(calls.read_text()) > 4 * died, "tasks to run")  # type: ignore[misc]
        server.kill()
        if died:  # long enough for answers to be ready while nobody takes them
            wait_for(lambda: running.log.read_text().count("Redis failed, trying again") >= 2, "tries to finish")
        server.start()
    answered_once(bot, tasks)
    assert len(calls.read_text()) == len(tasks), "Claude was asked once for each"
    assert running.log.read_text().count("[error") < 60, "no tight loop"
    assert "Traceback" not in running.log.read_text()
    assert running.stop() == 0
