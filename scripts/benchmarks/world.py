"""What measurements share: an installation of their own with its own Redis, and the line that names machine and versions."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from redis import Redis

from scripts.demo_host import BIN, STAND_IN, temporary_host


@contextmanager
def own_world() -> Iterator[dict[str, str]]:
    """A temporary installation with its own Redis; yields its environment, in which other settings are those of whoever measures."""
    with temporary_host(keep=False) as host:
        host.start_redis()
        yield os.environ | host.places | {"CLAUDE_BIN": str(STAND_IN)}


def describe_machine() -> None:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "onnxruntime", "redis"))
    cpu = next(
        (x.split(":")[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), "?"
    )
    typer.echo(f"machine: {os.cpu_count()} cores ({cpu}), Python {platform.python_version()}, {versions}")


@contextmanager
def started(environment: dict[str, str], *command: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of ours while it is measured (`hmem run`); its log is `bench.log` in its home."""
    with (
        Path(environment["HOME"], "bench.log").open("ab") as log,
        subprocess.Popen([BIN / command[0], *command[1:]], env=environment, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def megabytes(process: int | str) -> float:
    """Memory of a process that is in RAM."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def load_turns(folder: Path, url: str, *, names: bool = True) -> int:
    """Write a set's turns as `hcli:memory:*` keys, with or without the speakers' names; returns how many."""
    with (
        Redis.from_url(url) as client,
        client.pipeline(transaction=False) as pipe,
        (folder / "turns.jsonl").open("rb") as lines,
    ):
        count = 0
        for line in lines:
            turn = json.loads(line)
            body = line.strip() if names else json.dumps({key: turn[key] for key in turn if key != "name"})
            pipe.set(f"hcli:memory:{turn['task_id']}:{turn['role']}", body)
            count += 1
        pipe.execute()
    return count


def hmem(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [BIN / arguments[0], *arguments[1:]], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout
