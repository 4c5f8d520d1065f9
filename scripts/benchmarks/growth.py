"""Measurement of growth: a night with some new turns on histories of several sizes, from Redis to a release on another host, and lookups in it.

Real commands and a real Redis; the transfer is the one to another host (rsync over a remote shell that is `exec` here, and the day host's own
verbs), so that what is counted is what would be sent. Turns are made up, spread over many chats; the words are drawn by Zipf's law (exponent
1) from VOCABULARY made-up ones. Vectors are seeded random unit vectors in the night's cache, so what remains of `embed` is the check of the model
and the cache, unless the new turns are to be embedded, too.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import typer
from redis import Redis

from scripts.benchmarks import memory
from scripts.benchmarks.world import BINARIES, own_world, used

VOCABULARY, DIMENSIONS = 20_000, 384
#: Seconds between two exchanges of a chat, and the first of them (POSIX seconds).
BETWEEN_SECONDS, BEGUN = 600.0, 1_600_000_000.0
#: Turns of one segment of the history, and texts whose vectors are stored at once.
SEGMENT_TURNS, AT_ONCE = 10_000, 5000
#: Words that the questions of the lookups are made of.
ASKED_WORDS = 400

WORDS = [f"w{number:x}" for number in range(VOCABULARY)]
_WEIGHTS = list(accumulate(1 / (rank + 1) for rank in range(VOCABULARY)))

Turn = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is measured of each size."""

    new: int = 1_000
    chat_turns: int = 100  # turns of one chat of the history
    talking: int = 50  # chats that the new turns are in
    index: str = "sqlite"
    releases: int = 5  # that the day host has in the end: one of the history, and one of each night
    embed: bool = False  # whether the new turns are embedded, too
    rebuild: bool = False


def measure(turns: int, plan: Plan) -> dict[str, Any]:
    """The figures of one size, in an installation of its own."""
    chats, index, new = max(1, turns // plan.chat_turns), plan.index, plan.new
    with own_world() as environment:
        folder = Path(environment["HMEM_NIGHT_DIR"]).parent
        environment |= _other_host(folder) | {
            "NIGHT_INDEXES": index,
            "MEMORY_BACKEND": "auto",
            "STEP_TIMEOUT": "36000",
            "RELEASES_KEPT": str(plan.releases),
        }
        vectors = index != "none"
        cached = _write_history(folder / "night", talk(turns, chats), vectors=vectors)
        first = _night(environment, "run")
        nights = []
        for number in range(plan.releases - 1):
            said = list(talk(new, min(plan.talking, chats), first=turns + number * new))
            _say(environment, folder / "night", said, vectors=vectors and not plan.embed)
            nights.append(_night(environment, "run") | {"new_bytes": _new_bytes(folder / "memory")})
        added = nights[0]
        files, disk = _usage(folder / "memory")
        night_files, night_disk = _usage(folder / "night")
        found = _measure_lookups(environment)  # copies the release, so that its files are read from the disk
        figures = {
            "turns": turns,
            "night_s": round(added["total"], 2),
            "embed_s": added["seconds"]["embed"],
            "peak_mb": added["peak_mb"],
            "moved_mb": round(added["moved"] / 1e6, 2),
            "new_mb": round(added["new_bytes"] / 1e6, 2),
            "disk_mb": round(disk / 1e6, 1),
            "new": new,
            "chats": chats,
            "index": index,
            "releases": plan.releases,
            "steps": added["seconds"],
            "files": files,
            "nights_s": [round(one["total"], 2) for one in nights],
            "release_mb": round(_usage((folder / "memory" / "current").resolve())[1] / 1e6, 1),
            "night_files": night_files,
            "night_disk_mb": round(night_disk / 1e6, 1),
            "open_s": round(found["open"], 3),
            "first_ms": [round(found["first_p50"], 1), round(found["first_p99"], 1)],
            "warm_ms": [round(found["warm_p50"], 1), round(found["warm_p99"], 1)],
            "first_night_s": round(first["total"], 1),
            "vectors": cached,
        }
        if plan.rebuild:
            anew = _night(environment, "backfill", "archive")
            figures |= {"rebuild_s": round(anew["total"], 2), "rebuild_peak_mb": anew["peak_mb"]}
        return figures


def show(figures: dict[str, Any]) -> None:
    """One size for people."""
    steps = ", ".join(f"{step} {seconds:.2f}" for step, seconds in figures["steps"].items())
    (first, first_99), (warm, warm_99), releases = figures["first_ms"], figures["warm_ms"], figures["releases"]
    typer.echo(
        f"{figures['turns']:,} turns in {figures['chats']:,} chats, {figures['new']:,} new: night {figures['night_s']:.2f} s ({steps}), "
        f"most memory {figures['peak_mb']:.0f} MB, sent {figures['moved_mb']:.2f} MB for {figures['new_mb']:.2f} MB of new files"
    )
    typer.echo(
        f"  day host, {releases} releases: {figures['files']:,} files, {figures['disk_mb']:.1f} MB (one release {figures['release_mb']:.1f} MB), "
        f"opened in {figures['open_s']:.2f} s, first lookup of a chat p50 {first:.1f} / p99 {first_99:.1f} ms, warm {warm:.1f} / {warm_99:.1f} ms; "
        f"night host: {figures['night_files']:,} files, {figures['night_disk_mb']:.0f} MB; the first night {figures['first_night_s']:.0f} s"
    )
    if "rebuild_s" in figures:
        typer.echo(
            f"  rebuilt from nothing in {figures['rebuild_s']:.2f} s, most memory {figures['rebuild_peak_mb']:.0f} MB"
        )


def _other_host(folder: Path) -> dict[str, str]:
    """Settings of a target that is reached by remote shell, which is this host."""
    shell, verbs = folder / "shell", folder / "verbs"
    shell.write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    verbs.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m shared.delivery.receiver "$1"\n')
    for script in (shell, verbs):
        script.chmod(0o700)
    place = f"here:{folder}/memory"
    return {"PUBLISH_TARGET": place, "PUBLISH_SSH": str(shell), "RELEASE_COMMAND": str(verbs)}


def talk(count: int, chats: int, first: int = 0) -> Iterator[Turn]:
    """Turns as they lie in Redis: question and answer by turns, chat after chat."""
    chance = random.Random(first + 1)
    for number in range(first, first + count):
        exchange, chat = number // 2, number // 2 % chats
        length = chance.choice((6, 9, 14, 22, 40))
        yield {
            "chat_id": str(chat + 1),
            "role": "asst" if number % 2 else "user",
            "content": " ".join(chance.choices(WORDS, cum_weights=_WEIGHTS, k=length)) + ".",
            "timestamp": BEGUN + (exchange // chats) * BETWEEN_SECONDS + number % 2,
            "task_id": f"t{exchange}",
        }


def _key(turn: Turn) -> bytes:
    return f"hcli:memory:{turn['task_id']}:{turn['role']}".encode()


def _write_history(night_dir: Path, talk: Iterator[Turn], *, vectors: bool = True) -> int:
    """The archive as earlier nights would have left it, with a vector for each text in the cache (unless there is no index); their number."""
    from nightly.archive.segments import RawRecord, segment_name, write_segment
    from shared.system.files import make_dir

    archive, cached = make_dir(make_dir(night_dir) / "archive"), 0
    parts = iter(lambda: list(islice(talk, SEGMENT_TURNS)), [])
    for run, part in enumerate(parts, start=1):
        records = (RawRecord(_key(turn), "string", json.dumps(turn).encode()) for turn in part)
        write_segment(archive / segment_name(run), run, ({"kind": "turn", **record.to_json()} for record in records))
        cached += _fill_cache(night_dir, part) if vectors else 0
    return cached


def _say(environment: dict[str, str], night_dir: Path, turns: list[Turn], *, vectors: bool) -> None:
    if vectors:
        _fill_cache(night_dir, turns)
    with Redis.from_url(environment["REDIS_URL"]) as client:
        for turn in turns:
            client.set(_key(turn), json.dumps(turn))


def _fill_cache(night_dir: Path, turns: list[Turn]) -> int:
    """A seeded vector for each text of these turns, as if a night had embedded it; how many."""
    import numpy as np

    from nightly.index.vector_cache import VectorCache
    from nightly.night.folder import CACHE
    from shared.config.settings import load_settings
    from shared.embedding.open import open_embedder
    from shared.turns import records
    from shared.turns.chunking import chunks_of, embedded_text

    settings = load_settings(embedder="local")
    embedder = open_embedder(settings)
    assert embedder is not None
    cache = VectorCache(night_dir / CACHE, embedder.identity)
    texts = (
        embedded_text(chunk)
        for turn in turns
        for chunk in chunks_of(records.Turn.parse(_key(turn), json.dumps(turn).encode()))
    )
    made_for = 0
    while part := list(islice(texts, AT_ONCE)):
        generator = np.random.default_rng([len(part), *part[0].encode()[:64]])
        made = generator.standard_normal((len(part), DIMENSIONS)).astype(np.float32)
        cache.put(part, made / np.linalg.norm(made, axis=1, keepdims=True))
        made_for += len(part)
    cache.close()
    embedder.close()
    return made_for


def _night(environment: dict[str, str], *command: str) -> dict[str, Any]:
    """Of the night that a command runs: seconds by step and in all, bytes sent, and the most memory."""
    done = used(environment, [BINARIES / "hmem-night", *command, "--json"])
    summary = json.loads(done.output)[-1]
    about = {"seconds": summary["seconds"], "moved": summary["moved"]}
    return about | {"total": done.seconds, "peak_mb": done.peak_mb}


def _measure_lookups(environment: dict[str, str]) -> dict[str, Any]:
    words = random.Random(3).sample(WORDS[: 10 * ASKED_WORDS], ASKED_WORDS)
    return memory.in_own_process(memory.__file__, environment, *words)


def _usage(folder: Path) -> tuple[int, int]:
    """Files below a directory, and their bytes; a file with several names there counts once."""
    found = {(stat.st_dev, stat.st_ino): stat.st_size for stat in _stats(folder)}
    return len(found), sum(found.values())


def _new_bytes(memory: Path) -> int:
    """Bytes of the files that the current release has and no other."""
    current = (memory / "current").resolve()
    return sum(stat.st_size for stat in _stats(current) if stat.st_nlink <= 2)  # its own name, and that of the object


def _stats(folder: Path) -> Iterator[os.stat_result]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield (Path(place) / name).lstat()
