"""Measurement of the day: memory and lookups of a dispatcher that serves many chats, or one large chat.

The turns are made up and their vectors seeded into the night's cache, so the release is made by the real night, which embeds nothing; questions
are embedded as by day. Random vectors are the hardest for an approximate search. What is measured runs in a process of its own.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from redis import Redis

from scripts.benchmarks.world import hmem, megabytes, started
from scripts.demo_host import BIN

ASKED, WARM_LOOKUPS, K = 200, 1000, 10
WORDS = [
    f"{a}{b}{c}"
    for a in "ba do ki lu me ro sa tu".split()
    for b in "lan mer nid pos rut".split()
    for c in ("", *"s el ing ton ova ek ish um".split())
]

Environment = dict[str, str]


def _talk(chats: int, turns: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys and turns; some words are said often, most seldom."""
    chance = random.Random(7)
    weights = [1 / (rank + 1) for rank in range(len(WORDS))]
    for chat in range(chats):
        for number in range(turns):
            said = " ".join(chance.choices(WORDS, weights, k=12))
            role, task = ("user", "asst")[number % 2], f"c{chat}t{number // 2}"
            turn = {"chat_id": f"chat-{chat}", "role": role, "task_id": task, "timestamp": 1.7e9 + 60 * number}
            yield f"hcli:memory:{task}:{role}", turn | {"content": f"{said} {chat}-{number}"}


def make_release(environment: Environment, chats: int, turns: int) -> None:
    """One night; it is cut off before it embeds, its cache is filled, and it is run to its end."""
    with Redis.from_url(environment["REDIS_URL"]) as client, client.pipeline(transaction=False) as pipe:
        for number, (key, turn) in enumerate(_talk(chats, turns), start=1):
            pipe.set(key, json.dumps(turn))
            if number % 5000 == 0:
                pipe.execute()
        pipe.execute()
    night = ["hmem-night", "run", "--json"]
    subprocess.run(
        [BIN / night[0], *night[1:]],
        env=environment | {"HMEM_CRASH_AT": "embed:begun"},
        capture_output=True,
        check=False,
    )
    _fill_cache(Path(environment["HMEM_NIGHT_DIR"]))
    seconds = json.loads(hmem(environment, *night))[0]["seconds"]
    typer.echo("  night: " + ", ".join(f"{step} {value:.1f} s" for step, value in seconds.items() if value >= 0.1))


def _fill_cache(night_dir: Path) -> None:
    import numpy as np

    from nightly.index.chunk_file import ChunkFolder
    from nightly.index.vector_cache import VectorCache
    from shared.embedding.known_models import MULTILINGUAL
    from shared.embedding.local.embedder import LocalEmbedder
    from shared.turns.chunking import embedded_text

    (chunks,) = night_dir.glob("nights/*/chunk")
    identity, generator = LocalEmbedder(MULTILINGUAL).identity, np.random.default_rng(7)
    texts = list(dict.fromkeys(embedded_text(chunk) for _, rows in ChunkFolder(chunks) for chunk, _ in rows))
    cache = VectorCache(night_dir / "cache.sqlite", identity, print)
    for start in range(0, len(texts), 5000):
        part = texts[start : start + 5000]
        vectors = generator.standard_normal((len(part), identity.dimensions)).astype(np.float32)
        cache.put(part, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    cache.close()


def measure(environment: Environment, label: str) -> None:
    """Print what a fresh process needs and how long its lookups take."""
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    typer.echo(
        f"  {label}: opened in {found['open']:.2f} s; RSS {found['opened_mb']:.0f} MB opened, {found['asked_mb']:.0f} MB after "
        f"{found['chats']} chats; first lookup of a chat p50 {found['first_p50']:.1f} / p99 {found['first_p99']:.1f} ms, "
        f"warm {found['warm_p50']:.1f} / {found['warm_p99']:.1f} ms; after a switch: opened in the background in {found['switch']:.2f} s, "
        f"first lookup {found['after_switch']:.1f} ms; {found['degraded']} without vectors"
    )


def measure_dispatcher(environment: Environment, label: str, chats: int) -> None:
    """Print the memory of `hmem run` itself once that many chats have been answered by the stand-in for Claude."""
    with (
        started(environment, "hmem", "run") as process,
        Redis.from_url(environment["REDIS_URL"]) as client,
    ):
        time.sleep(4)  # the vectors are loaded in the background
        for chat in range(chats):
            task = {
                "task_id": f"ask{label.split()[0]}{chat}",
                "chat_id": f"chat-{chat}",
                "user_id": 1,
                "message": "bamereking?",
            }
            client.rpush("hcli:tasks", json.dumps(task))
        deadline = time.monotonic() + 300
        while _unanswered(client, label, chats) and time.monotonic() < deadline:
            time.sleep(0.2)
        typer.echo(f"  {label}: hmem run RSS {megabytes(process.pid):.0f} MB after {chats} chats")


def _unanswered(client: Redis, label: str, chats: int) -> int:
    with client.pipeline(transaction=False) as pipe:
        for chat in range(chats):
            pipe.exists(f"hcli:results:ask{label.split()[0]}{chat}")
        return chats - sum(map(int, pipe.execute()))


def _measured() -> dict[str, Any]:
    """In the fresh process: a dispatcher's memory object, asked by one chat after another."""
    import dispatcher.answering.worker  # noqa: F401 - all that a dispatcher loads
    from dispatcher.releases.served import ServedRelease
    from shared.config.settings import load_settings
    from shared.release.chats import ChatTable
    from shared.release.manifest import current_release
    from shared.search.types import Query

    settings = load_settings()
    release = current_release(settings.hmem_memory_dir)
    assert release is not None
    with ChatTable.of(release) as table:
        every = table.ids()
    chance = random.Random(11)
    chats = chance.sample(every, min(ASKED, len(every)))
    memory, began = ServedRelease(settings), time.perf_counter()
    degraded = 0

    def ask(chat: str) -> float:
        nonlocal degraded
        question, began = " ".join(chance.choices(WORDS, k=6)) + "?", time.perf_counter()
        with memory.reading() as opened:
            assert opened is not None
            degraded += bool(opened.recall(Query(chat, question, K)).degraded)
        return (time.perf_counter() - began) * 1000

    memory.refresh()
    opened_in, opened_mb = time.perf_counter() - began, megabytes("self")
    first = [ask(chat) for chat in chats]
    asked_mb = megabytes("self")
    warm = [ask(chance.choice(chats)) for _ in range(WARM_LOOKUPS)]
    _bring_again(release)
    began = time.perf_counter()
    memory.refresh()
    switched_in = time.perf_counter() - began
    after = ask(chats[0])
    memory.close()
    return {
        "open": opened_in,
        "opened_mb": opened_mb,
        "asked_mb": asked_mb,
        "chats": len(chats),
        "first_p50": statistics.median(first),
        "first_p99": percentile(first),
        "warm_p50": statistics.median(warm),
        "warm_p99": percentile(warm),
        "switch": switched_in,
        "after_switch": after,
        "degraded": degraded,
    }


def _bring_again(release: Path) -> None:
    """The same release as another directory of that name: what a dispatcher takes for a new one."""
    before = release.with_name(f"{release.name}.before")
    release.rename(before)
    shutil.copytree(before, release)
    shutil.rmtree(before)


def percentile(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measured()) + "\n")
