"""Measurement of encryption at rest: the same installation with and without it, side by side.

The turns are made up and their vectors seeded into the night's cache (scripts/benchmarks/memory.py), so nothing is embedded by night; questions are
embedded as by day. Nights and lookups run in processes of their own, plain and encrypted in turns, and are compared as ratios.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import typer
from redis import Redis

from scripts.benchmarks.memory import WORDS, Environment, in_own_process, make_release, percentile
from scripts.benchmarks.world import own_world
from shared.system.keys.encryption_key import EncryptionKey

ASKED, WARM = 60, 600


def compare(chats: int, turns: int, large: int, rounds: int) -> None:
    """Print a line for each kind of work."""
    with ExitStack() as stack:
        worlds = {name: stack.enter_context(own_world()) for name in ("plain", "encrypted")}
        key = Path(worlds["encrypted"]["HOME"]) / "keys" / "encrypt.key"
        key.parent.mkdir(mode=0o700)
        EncryptionKey.new().write(key)
        worlds["encrypted"]["ENCRYPT_KEY_FILE"] = str(key)
        for label, count, length in ((f"{chats} chats of {turns} turns", chats, turns), ("one large chat", 1, large)):
            typer.echo(f"{label} ({count * length} turns)")
            nights = {name: _nights(world, count, length) for name, world in worlds.items()}
            for what in ("first", "next", "bytes"):
                _line(what, *(nights[name][what] for name in worlds))
            _lookups(worlds, rounds)


def _nights(environment: Environment, chats: int, turns: int) -> dict[str, float]:
    """Seconds of a night with all turns and of one with a turn more in each chat, without embedding; bytes of the release."""
    environment["HMEM_NIGHT_DIR"] = f"{environment['HOME']}/night-{chats}"
    environment["HMEM_MEMORY_DIR"] = f"{environment['HOME']}/memory-{chats}"
    os.environ.pop("ENCRYPT_KEY_FILE", None)
    os.environ.update(environment)
    _configure()
    make_release(environment, chats, turns)
    first = sum(_seconds(folder) for folder in _folders(environment))
    with Redis.from_url(environment["REDIS_URL"]) as client:
        for chat in range(chats):
            turn = {"chat_id": f"chat-{chat}", "role": "user", "task_id": f"more{chat}", "timestamp": 1.8e9}
            client.set(f"hcli:memory:more{chat}:user", json.dumps(turn | {"content": f"one more {chat}"}))
    night = [str(Path(sys.executable).parent / "hmem-night"), "run", "--json"]
    subprocess.run(night, env=environment, capture_output=True, check=True)
    release = Path(environment["HMEM_MEMORY_DIR"]) / "current"
    size = sum(path.stat().st_size for path in release.rglob("*") if path.is_file())
    return {"first": first, "next": _seconds(_folders(environment)[-1]), "bytes": float(size)}


def _folders(environment: Environment) -> list[Path]:
    return sorted(Path(environment["HMEM_NIGHT_DIR"]).glob("nights/*"), key=lambda path: int(path.name))


def _seconds(night: Path) -> float:
    """Of a night's steps, without embedding."""
    results = [json.loads(path.read_bytes()) for path in night.glob("*/result.json") if path.parent.name != "embed"]
    return float(sum(result["seconds"] for result in results))


def _lookups(worlds: dict[str, Environment], rounds: int) -> None:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in worlds}
    for number in range(rounds):
        for name in worlds if number % 2 == 0 else reversed(worlds):
            found[name].append(in_own_process(__file__, worlds[name]))
    for what in ("open", "cold", "warm", "warm p99", "RSS"):
        _line(what, *(statistics.median(one[what] for one in found[name]) for name in worlds))


_UNITS = {
    "first": ("first night", "s"), "next": ("night with a turn more a chat", "s"), "bytes": ("release", "bytes"),
    "open": ("opening", "ms"), "cold": ("first lookup of a chat, median", "ms"), "warm": ("later lookups, median", "ms"),
    "warm p99": ("later lookups, p99", "ms"), "RSS": ("memory of the process", "MB"),
}  # fmt: skip


def _line(what: str, plain: float, encrypted: float) -> None:
    name, unit = _UNITS[what]
    typer.echo(f"  {name}: plain {plain:,.1f} {unit}, encrypted {encrypted:,.1f} {unit}, ratio {encrypted / plain:.2f}")


def _configure() -> Any:
    from shared.config.settings import load_settings
    from shared.system.keys import sealing

    settings = load_settings()
    sealing.configure(settings, "night")
    return settings


def _measured() -> dict[str, float]:
    """Lookups in a process of its own."""
    import random

    from scripts.benchmarks.memory import megabytes
    from shared.release.chats import ChatTable
    from shared.search.recall import OpenRelease
    from shared.search.types import Query
    from shared.system.keys import sealing

    settings, chance = _configure(), random.Random(11)
    sealing.require()  # as a dispatcher does when it starts
    path = settings.hmem_memory_dir / "current"
    began = time.perf_counter()
    with closing(OpenRelease(settings, path)) as release:
        release.open_vectors()
        opened = time.perf_counter() - began
        with ChatTable.of(path) as table:
            chats = table.ids()[:ASKED]

        def ask(chat: str) -> float:
            asked = Query(chat, " ".join(chance.choices(WORDS, k=6)) + "?", 10)
            start = time.perf_counter()
            release.recall(asked)
            return (time.perf_counter() - start) * 1000

        ask("nobody")  # the embedder is loaded
        cold = [ask(chat) for chat in chats]
        warm = [ask(chats[number % len(chats)]) for number in range(WARM)]
    return {
        "open": opened * 1000, "cold": statistics.median(cold), "warm": statistics.median(warm), "warm p99": percentile(warm),
        "RSS": megabytes("self"),
    }  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measured()) + "\n")
