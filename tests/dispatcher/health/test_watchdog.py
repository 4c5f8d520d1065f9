"""What systemd is told: on a real datagram socket, by the protocol alone, and by a dispatcher that works, hangs and stops."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis

import dispatcher.answering.worker
from dispatcher.answering.opening import open_parts
from dispatcher.answering.task_handler import TaskHandler
from dispatcher.answering.worker import Worker
from dispatcher.claude.client import ClaudeCli
from dispatcher.health.watchdog import Supervisor
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.cancellation import Run
from shared.wire.client import open_async_redis
from tests.support.day.hcli_bot import SAY, Bot, script
from tests.support.machine import redis_server, wait_for
from tests.support.world import World


@dataclass
class Systemd:
    """The socket that NOTIFY_SOCKET names, and what came in on it: (seconds, message)."""

    address: str
    heard: list[tuple[float, str]] = field(default_factory=list)

    def messages(self, since: float = 0.0) -> list[str]:
        return [message for moment, message in self.heard if moment >= since]

    def count(self, message: str, since: float = 0.0) -> int:
        return self.messages(since).count(message)

    @property
    def variables(self) -> dict[str, str]:
        """As systemd sets them for WatchdogSec=0.4."""
        return {"NOTIFY_SOCKET": self.address, "WATCHDOG_USEC": "400000"}


@pytest.fixture
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    address = getattr(request, "param", None) or str(tmp_path / "notify")
    listening = Systemd(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind("\0" + address[1:] if address.startswith("@") else address)
        receiver.settimeout(0.1)
        ended = threading.Event()

        def listen() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    listening.heard.append((time.monotonic(), receiver.recv(1000).decode()))

        thread = threading.Thread(target=listen)
        thread.start()
        yield listening
        ended.set()
        thread.join()


@pytest.mark.parametrize("systemd", [None, f"@hmem-test-{os.getpid()}"], indirect=True, ids=["path", "abstract"])
def test_every_message_arrives_as_the_protocol_wants_it(systemd: Systemd) -> None:
    supervisor = Supervisor(dict(systemd.variables))
    assert supervisor.watchdog_seconds == pytest.approx(0.4)
    for _ in range(2):
        supervisor.ready()
        supervisor.alive()
    supervisor.stopping()
    supervisor.stopping()
    wait_for(lambda: len(systemd.heard) >= 4, "the messages")
    assert systemd.messages() == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "STOPPING=1"]


@pytest.mark.slow
def test_a_dispatcher_is_ready_alive_and_stopping(light: World, systemd: Systemd) -> None:
    bot, seen = Bot(light.redis), light.root / "seen"
    claude = script(light, f"env > {seen}; sleep 1.2; {SAY} done")
    running = light.start_dispatcher(CLAUDE_BIN=claude, **systemd.variables)
    wait_for(lambda: systemd.count("READY=1"), "READY=1")
    began = time.monotonic()
    assert bot.ask("hello", 9912) == "done"
    assert systemd.count("WATCHDOG=1", began) >= 5, "while it waits and while it works"
    assert not [line for line in seen.read_text().splitlines() if line.startswith(("NOTIFY", "WATCHDOG"))]
    task_id = bot.send("the last one", 9912)
    wait_for(lambda: light.redis.hlen("hcli:mem:busy"), "the claim")
    os.kill(running.process.pid, signal.SIGTERM)
    wait_for(lambda: systemd.count("STOPPING=1"), "STOPPING=1")
    told = time.monotonic()
    assert running.process.wait(timeout=600) == 0
    assert systemd.count("WATCHDOG=1", told) >= 2, "alive to the end of the running task"
    assert bot.receive(task_id)["output"] == "done"
    assert (systemd.count("READY=1"), systemd.count("STOPPING=1")) == (1, 1)
    assert set(systemd.messages()) == {"READY=1", "WATCHDOG=1", "STOPPING=1"}


def worker(light: World, monkeypatch: pytest.MonkeyPatch, systemd: Systemd) -> Worker:
    """It serves no release."""
    for name, value in systemd.variables.items():
        monkeypatch.setenv(name, value)
    client, given, served = open_async_redis(light.url), light.settings(day_store_url="none"), Mock(served_run=None)
    served.moved.return_value = False
    return Worker(
        given, client, TaskHandler(open_parts(given, client, ClaudeCli(given), DayMemory(given, nullcontext), served))
    )


@asynccontextmanager
async def at_work(made: Worker) -> AsyncIterator[Worker]:
    task = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await task
        await made._redis.aclose()


async def until(condition: Any, what: str) -> None:
    await asyncio.to_thread(wait_for, condition, what)


def test_a_claim_loop_that_hangs_is_not_fed(light: World, monkeypatch: pytest.MonkeyPatch, systemd: Systemd) -> None:
    async def hang() -> None:
        made = worker(light, monkeypatch, systemd)
        feeding = asyncio.create_task(made._feed_watchdog())
        await until(lambda: systemd.count("WATCHDOG=1"), "a sign of life")
        made._turned -= 1000
        await asyncio.sleep(0.2)
        hung = time.monotonic()
        await asyncio.sleep(0.5)
        assert systemd.messages(hung) == [], "the event loop lives and feeds nothing"
        made._turned = time.monotonic()
        await until(lambda: systemd.count("WATCHDOG=1", hung), "a sign of life once it turns again")
        feeding.cancel()
        await made._redis.aclose()

    asyncio.run(hang())


@pytest.mark.slow
def test_a_redis_that_hangs_is_no_hang_of_ours(
    light: World, monkeypatch: pytest.MonkeyPatch, systemd: Systemd, tmp_path: Path
) -> None:
    monkeypatch.setattr(dispatcher.answering.worker, "CLAIM_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(dispatcher.answering.worker, "TURN_SECONDS", 3)

    async def outlive(client: Redis, server: int) -> None:
        made = worker(light, monkeypatch, systemd)
        async with at_work(made):
            await until(lambda: systemd.count("READY=1"), "READY=1")
            os.kill(server, signal.SIGSTOP)
            away = time.monotonic()
            await until(lambda: made._redis_failed > away, "the failure to be seen")
            await until(lambda: systemd.count("WATCHDOG=1", away + 4) >= 5, "signs of life: it is tried again")
            os.kill(server, signal.SIGCONT)
            client.rpush("hcli:tasks", b"{")
            await until(lambda: client.llen("hcli:mem:dead"), "the task that came meanwhile")
            assert client.llen("hcli:tasks") == 0

    with redis_server(tmp_path / "redis", "--save", "") as (server, client, light.url):
        asyncio.run(outlive(client, server.pid))


def test_what_counts_as_a_hang(light: World, monkeypatch: pytest.MonkeyPatch, systemd: Systemd) -> None:
    async def judge() -> None:
        made = worker(light, monkeypatch, systemd)
        now = time.monotonic()
        assert made._hang(now) is None
        assert made._hang(now + 91) == "the claim loop hangs"
        made._turned = now + 1_000_000
        task = asyncio.create_task(asyncio.sleep(0))
        made._running[task] = Run()
        limit = 2 * 600 + 120
        assert made._hang(now + limit - 1) is None, "a lost session is asked anew, so a task may take twice its time"
        assert made._hang(now + limit + 1) == "a task does not end"
        made._redis_failed = now + 1000
        assert made._hang(now + limit + 1) is None, "it waits for Redis with its answer in hand"
        assert made._hang(now + 1000 + limit + 1) == "a task does not end"
        made._running.clear()
        await task
        made._background = [task]
        assert made._hang(now) == "the heartbeat or the watch over the release has ended"
        made._background = []
        made._turned = now
        made.stop()
        assert made._hang(now + 500) is None, "after a stop it is TimeoutStopSec that counts"
        await made._redis.aclose()

    asyncio.run(judge())
