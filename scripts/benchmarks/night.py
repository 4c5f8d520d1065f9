"""Measurement of a night that adds to a history, against one that builds the same history from nothing: seconds by step, bytes that go over.

Real commands and a real Redis; the transfer is the one to another host (rsync over a remote shell that is `exec` here, and the day host's own
verbs), so that what is counted is what would go over the network. The history's vectors are seeded random unit vectors, put into the
night's cache; the new turns are embedded by the shipped model. The words are drawn by Zipf's law (exponent 1) from VOCABULARY made-up ones.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import typer
from redis import Redis

VOCABULARY, DIMENSIONS = 20_000, 384
#: Seconds between two turns of a chat, and the first of them (POSIX seconds).
BETWEEN_SECONDS, BEGUN = 600.0, 1_600_000_000.0

Hmem = Callable[..., str]


def compare(environment: dict[str, str], hmem: Hmem, turns: int, new: int, chats: int, index: str) -> None:
    """Print both nights of one index, in an installation of its own, and their ratios."""
    folder = Path(environment["HMEM_NIGHT_DIR"]).parent
    environment |= _other_host(folder) | {"NIGHT_INDEXES": index, "MEMORY_BACKEND": "auto", "STEP_TIMEOUT": "36000"}
    history = folder / "history.jsonl"
    history.write_text("".join(json.dumps(turn) + "\n" for turn in _talk(turns, chats)))
    _fill_cache(Path(environment["HMEM_NIGHT_DIR"]), history)
    hmem(environment, "hmem-night", "backfill", "jsonl", str(history))
    with Redis.from_url(environment["REDIS_URL"]) as client:
        for turn in _talk(new, chats, first=turns):
            client.set(f"hcli:memory:{turn['task_id']}:{turn['role']}", json.dumps(turn))
    added = _night(environment, hmem, "run", "--json")
    anew = _night(environment, hmem, "backfill", "archive", "--json")
    size, archive = _size((folder / "memory" / "current").resolve()), _size(folder / "night" / "archive")
    fresh = new * size / (turns + new)
    typer.echo(
        f"{index}: {new:,} new turns on {turns:,} in {chats} chats; release {size / 1e6:.0f} MB, {new:,} turns of it {fresh / 1e6:.2f} MB"
    )
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    typer.echo(f"  archive {archive / 1e6:.0f} MB; most memory of a process {largest:.0f} MB")
    steps = ("export", "archive", "chunk", "embed", "build", "summarise", "publish", "flush", "restart")
    for label, night in (("added", added), ("anew", anew)):
        told = ", ".join(f"{step} {night['seconds'][step]:.2f}" for step in steps)
        typer.echo(f"  {label:5} {night['total']:7.2f} s, moved {night['moved'] / 1e6:8.2f} MB   ({told})")
    build = added["seconds"]["build"] / anew["seconds"]["build"]
    each = (
        max(added["seconds"]["embed"] - anew["seconds"]["embed"], 0.001) / new
    )  # beside reading the cache, which both do
    embedding = (turns + new) * each  # what a night host without its cache would embed
    cold = added["total"] / (anew["total"] + embedding)
    typer.echo(
        f"  ratio: build {build:.1%}; whole night {added['total'] / anew['total']:.1%} with every vector cached, {cold:.1%} of one that embeds all "
        f"({embedding:.0f} s more, at {1 / each:.0f} texts/s); moved {added['moved'] / fresh:.2f} x the new data, "
        f"{added['moved'] / anew['moved']:.1%} of the rebuild's"
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _other_host(folder: Path) -> dict[str, str]:
    """Settings of a target that is reached by remote shell, which is this host."""
    shell, verbs = folder / "shell", folder / "verbs"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    verbs.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m shared.delivery.receiver "$1"\n')
    for script in (shell, verbs):
        script.chmod(0o700)
    place = f"here:{folder}/memory"
    return {"PUBLISH_TARGET": place, "PUBLISH_SSH": str(shell), "RELEASE_COMMAND": str(verbs)}


def _talk(count: int, chats: int, first: int = 0) -> Iterator[dict[str, Any]]:
    """Turns as they lie in Redis: question and answer by turns, chat after chat, a talk of every chat going on each day."""
    chance = random.Random(first + 1)
    words = [f"w{number:x}" for number in range(VOCABULARY)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))
    for number in range(first, first + count):
        exchange, chat = number // 2, number // 2 % chats
        length = chance.choice((6, 9, 14, 22, 40))
        yield {
            "chat_id": str(chat + 1),
            "role": "asst" if number % 2 else "user",
            "content": " ".join(chance.choices(words, cum_weights=weights, k=length)) + ".",
            "timestamp": BEGUN + (exchange // chats) * BETWEEN_SECONDS + number % 2,
            "task_id": f"t{exchange}",
        }


def _fill_cache(night_dir: Path, history: Path) -> None:
    """A seeded vector for each text of the history, as if nights before had embedded it."""
    import numpy as np

    from nightly.index.vector_cache import VectorCache
    from nightly.night.folder import CACHE
    from shared.config.settings import load_settings
    from shared.embedding.open import open_embedder
    from shared.turns.chunking import chunks_of, indexed_text
    from shared.turns.records import Turn

    night_dir.mkdir(parents=True, exist_ok=True)
    settings = load_settings(embedder="local")
    embedder, generator = open_embedder(settings), np.random.default_rng(1)
    assert embedder is not None
    cache = VectorCache(night_dir / CACHE, embedder.identity)
    texts: list[str] = []
    for line in history.read_bytes().splitlines():
        raw = json.loads(line)
        turn = Turn.parse(f"hcli:memory:{raw['task_id']}:{raw['role']}".encode(), line)
        texts += [indexed_text(chunk, settings.timezone) for chunk in chunks_of(turn)]
    for start in range(0, len(texts), 5000):
        part = texts[start : start + 5000]
        made = generator.standard_normal((len(part), DIMENSIONS)).astype(np.float32)
        cache.put(part, made / np.linalg.norm(made, axis=1, keepdims=True))
    cache.close()


def _night(environment: dict[str, str], hmem: Hmem, *command: str) -> dict[str, Any]:
    """Of the night that a command runs: seconds by step and in all, and the bytes that went over."""
    started = time.perf_counter()
    summary = json.loads(hmem(environment, "hmem-night", *command))[-1]
    total = time.perf_counter() - started
    folder = Path(environment["HMEM_NIGHT_DIR"]) / "nights" / str(summary["run"]) / "publish" / "result.json"
    return {"seconds": summary["seconds"], "total": total, "moved": json.loads(folder.read_text())["moved"]}
