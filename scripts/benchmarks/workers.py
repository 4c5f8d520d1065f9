"""Measurement of the night's workers: a rebuild with every vector cached by processes and by a Dask cluster on this host, and embedding by workers
whose embedder only waits, as the night does for a host with a GPU.

The turns are those of `growth`. What is compared is the seconds of the steps that have workers, and of the whole command. Each worker takes a
core of this host, so more of them than it has cores gain only where they wait.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import typer

from scripts.benchmarks.growth import _night, _write_history, talk
from scripts.benchmarks.world import BINARIES, own_world

#: Steps with workers.
STEPS = ("chunk", "embed", "build")
#: Seconds that the waiting embedder takes for a request of 32 texts.
WAIT_SECONDS = 0.4
MODEL = "snowflake-arctic-embed:33m"
START_SECONDS = 60.0


def rebuilds(turns: int, rounds: int) -> None:
    """By 1 and 2 processes, and by 1 and 2 workers of Dask; the rounds of all take turns."""
    with own_world() as environment, ExitStack() as opened:
        _write_history(Path(environment["HMEM_NIGHT_DIR"]), talk(turns, max(1, turns // 100)))
        _night(environment, "run")
        ways = {"1 process": "1", "2 processes": "2"}
        for count in (1, 2):
            ways[f"{count} Dask"] = opened.enter_context(cluster(environment, [{}] * count))
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, workers in ways.items():
                found[name].append(_night(environment | {"NIGHT_WORKERS": workers}, "backfill", "archive"))
    _show(f"{turns:,} turns rebuilt", found)


def embeddings(turns: int, rounds: int) -> None:
    """By 1, 2, 4 and 8 workers of Dask, each with an embedder that waits; nothing is cached."""
    with waiting_embedder() as url, own_world() as environment:
        environment |= {"EMBEDDER": "ollama", "EMBED_MODEL": MODEL, "OLLAMA_URL": url}
        _write_history(Path(environment["HMEM_NIGHT_DIR"]), talk(turns, max(1, turns // 100)))
        found: dict[str, list[dict[str, Any]]] = {}
        for count in (1, 2, 4, 8):
            with cluster(environment, [{}] * count) as address:
                for _ in range(rounds):
                    (Path(environment["HMEM_NIGHT_DIR"]) / "cache.sqlite").unlink(missing_ok=True)
                    made = _night(environment | {"NIGHT_WORKERS": address}, "backfill", "archive")
                    found.setdefault(f"{count} workers", []).append(made)
    _show(f"{turns:,} turns, {WAIT_SECONDS:g} s for 32 texts", found, ("embed",))


@contextmanager
def waiting_embedder() -> Iterator[str]:
    """The address of an Ollama that waits, and answers with a vector that follows from the text."""
    import numpy as np

    from tests.servers.ollama_api import DIGEST, OllamaApi

    class Waiting(OllamaApi):
        def embed(self, texts: list[str], fault: str) -> dict[str, Any]:  # noqa: ARG002 - as its base has it
            time.sleep(WAIT_SECONDS)
            made = (np.random.default_rng([*text.encode()[:200]]).standard_normal(384) for text in texts)
            rows = [(one / np.linalg.norm(one)).round(5).tolist() for one in made]
            return {"model": MODEL, "embeddings": rows, "prompt_eval_count": len(texts)}

    with Waiting({MODEL: DIGEST}) as api:
        yield api.url


@contextmanager
def cluster(environment: dict[str, str], workers: list[dict[str, str]]) -> Iterator[str]:
    """The address of a scheduler on loopback with these workers (their own settings)."""
    from tests.support.machine import free_port

    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
    commands = [([*scheduler, "--no-dashboard", "--no-show"], environment)]
    commands += [([str(BINARIES / "hmem-night"), "worker", address], environment | more) for more in workers]
    processes = [
        subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command, variables in commands
    ]
    try:
        _wait_for_workers(address, len(workers))
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait()


def _wait_for_workers(address: str, count: int) -> None:
    from distributed import Client

    with Client(address, timeout=START_SECONDS, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=START_SECONDS)


def _show(what: str, found: dict[str, list[dict[str, Any]]], steps: tuple[str, ...] = STEPS) -> None:
    """Medians, and how many times as fast as the first way."""
    typer.echo(f"{what}, medians of {len(next(iter(found.values())))}:")
    first: dict[str, float] = {}
    for name, nights in found.items():
        medians = {step: statistics.median(one["seconds"][step] for one in nights) for step in steps}
        medians |= {"these steps": sum(medians.values())} if len(steps) > 1 else {}
        medians |= {"whole": statistics.median(one["total"] for one in nights)}
        first = first or medians
        shown = ", ".join(f"{step} {seconds:.2f} s ({first[step] / seconds:.2f}x)" for step, seconds in medians.items())
        typer.echo(f"  {name}: {shown}; most memory of the night {max(one['peak_mb'] for one in nights):.0f} MB")
