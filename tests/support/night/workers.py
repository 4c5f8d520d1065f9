"""Nights that are large enough for workers, the bytes of their releases, and a Dask cluster on loopback: a real scheduler, real workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nightly.archive import cutting
from nightly.backfill.rebuild import rebuild_archive
from nightly.index import word_parts
from nightly.night.progress import Reporter
from nightly.steps import embed
from nightly.workers import workers
from shared.release.manifest import read_manifest
from tests.servers.ollama_api import OllamaApi
from tests.support.machine import free_port, wait_for
from tests.support.world import BINARIES, World

NOON = 1_707_500_000.0


def make_nights_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few texts count as many."""
    monkeypatch.setattr(workers, "FEWEST_FOR_PROCESSES", 1)
    monkeypatch.setattr(workers, "FEWEST_FOR_CLUSTER", 1)
    monkeypatch.setattr(word_parts, "LEAST_CHUNKS", 1)
    monkeypatch.setattr(cutting, "TASK_BYTES", 500)
    monkeypatch.setattr(embed, "BATCH_TEXTS", 4)


def talk(world: World, chats: int = 16, count: int = 4) -> None:
    """What is said in some chats, some of it twice, and an answer that is cut into passages."""
    for chat in range(chats):
        for number in range(count):
            words = (
                f"heron {number} of {chat % 5} was seen at the pond on day {number}." if number % 3 else "OK, thanks"
            )
            world.say(f"t{number}-{chat}", words, chat_id=str(chat), timestamp=NOON + 60 * number)
    world.say("long", "A long answer. " * 200, chat_id="0", role="asst", timestamp=NOON + 1000)


def rebuilt(world: World, **more: Any) -> tuple[dict[str, str], list[str]]:
    """Build the release from nothing but the cache: its files without the names of runs, with their hashes; what was said of workers."""
    (world.night_dir / "cache.sqlite").unlink(missing_ok=True)
    (summary,) = rebuild_archive(world.settings(**more), Reporter(quiet=True), reembed=False)
    manifest = read_manifest((world.memory_dir / "current").resolve())
    run = f"/{manifest.run}"
    return {name.replace(run, "/run"): file["sha256"] for name, file in manifest.files.items()}, summary["workers"]


class EndingApi(OllamaApi):
    """Embeds as its base does, after calling `at_embed`."""

    at_embed: Callable[[], object] = staticmethod(lambda: None)

    def embed(self, texts: list[str], fault: str) -> dict[str, Any]:
        self.at_embed()
        return super().embed(texts, fault)


class LoopbackCluster:
    """A scheduler and the workers that are started; all of them end with the test."""

    def __init__(self, world: World, scheme: str = "tcp", options: tuple[str, ...] = ()) -> None:
        self._world, port = world, free_port()
        self.address = f"{scheme}://127.0.0.1:{port}"
        self.scratch = world.root / "scratch"
        self.scratch.mkdir()
        self.workers: list[subprocess.Popen[bytes]] = []
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", f"{scheme}://127.0.0.1"]
        self.scheduler = self._start(
            "scheduler", [*command, "--port", str(port), "--no-dashboard", "--no-show", *options]
        )
        self._wait_until_said("scheduler", "Scheduler at:")

    def start_worker(self, **more: str) -> str:
        """Its address."""
        name = f"worker-{len(self.workers)}"
        self.workers.append(self._start(name, [str(BINARIES / "hmem-night"), "worker", self.address], **more))
        self._wait_until_said(name, "Registered to:")
        log = self._log(name).read_text()
        return next(line.split()[-1] for line in log.splitlines() if "Start worker at:" in line)

    def end(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in [*self.workers, self.scheduler]:
            process.wait()

    def _start(self, name: str, command: list[str], **more: str) -> subprocess.Popen[bytes]:
        environment = self._world.variables(TMPDIR=str(self.scratch), **more)
        with self._log(name).open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def _log(self, name: str) -> Path:
        return self._world.root / f"{name}.log"

    def _wait_until_said(self, name: str, what: str) -> None:
        wait_for(lambda: what in self._log(name).read_text(), lambda: f"{what}: {self._log(name).read_text()}", 120)


@contextmanager
def loopback_cluster(world: World, **more: Any) -> Iterator[LoopbackCluster]:
    cluster = LoopbackCluster(world, **more)
    try:
        yield cluster
    finally:
        cluster.end()


def killing(process: subprocess.Popen[bytes], number: int) -> Callable[[], None]:
    """Sends the process this signal."""
    return lambda: os.kill(process.pid, number)
