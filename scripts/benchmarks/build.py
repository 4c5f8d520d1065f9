"""Measures the build: an index that is added to a copy of the last one, against one that is built from scratch."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from shared.vectors.base import Corpus

DIMENSIONS = 384


def compare(existing: int, new: int, chats: int, touched: int, rounds: int) -> None:
    """Print medians of `rounds`: seconds of both ways and of their common proof, bytes, and the ratio.

    Both start from proven vectors in memory, and end with an index that is closed. To adding belongs what it needs besides: a copy, and
    the hash of every byte of it. The vectors are seeded random unit vectors; the new ones go to `touched` chats.
    """
    from nightly.index.previous import hash_files
    from shared.release.parts import Earlier
    from shared.vectors.chroma import ChromaBuilder

    old, whole = _made_up(existing, new, chats, touched)
    held, builder = {chat: set(ids) for chat, (ids, _) in old.chats.items()}, ChromaBuilder()
    figures: list[dict[str, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="hmem-bench-") as scratch:
            folder = Path(scratch)
            builder.build(folder / "last", old)

            def add(folder: Path = folder) -> None:
                hash_files(folder / "last")
                builder.build(folder / "added", whole, Earlier(folder / "last", held))

            figures.append(
                {
                    "added": _seconds(add),
                    "anew": _seconds(builder.build, folder / "anew", whole),
                    "proof": _seconds(builder.check, folder / "added", folder / "proof", whole),
                    "added MB": _megabytes(folder / "added"),
                    "anew MB": _megabytes(folder / "anew"),
                }
            )
            shutil.rmtree(folder / "proof")
    median = {name: statistics.median(figure[name] for figure in figures) for name in figures[0]}
    typer.echo(
        f"{existing} vectors in {chats} chats and {new} new in {touched}: added to a copy {median['added']:.2f} s "
        f"({median['added MB']:.0f} MB), from nothing {median['anew']:.2f} s ({median['anew MB']:.0f} MB): "
        f"{median['anew'] / median['added']:.1f} times as fast; proof of either {median['proof']:.2f} s (medians of {rounds})"
    )


def _made_up(existing: int, new: int, chats: int, touched: int) -> tuple[Corpus, Corpus]:
    """The vectors of the last night by chat, and those of tonight."""
    import numpy as np

    from shared.vectors.base import Corpus

    random = np.random.default_rng(4)

    def vectors(count: int) -> Any:
        made = random.standard_normal((count, DIMENSIONS)).astype(np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    old, whole = {}, {}
    for chat in range(chats):
        ids, made = [f"o{chat}-{n}:user#1" for n in range(existing // chats)], vectors(existing // chats)
        if ids:
            old[str(chat)] = (ids, made)
        more = new // touched if chat < touched else 0
        whole[str(chat)] = (
            [*ids, *(f"n{chat}-{n}:user#1" for n in range(more))],
            np.concatenate([made, vectors(more)]),
        )
    return Corpus(old), Corpus(whole)


def _seconds(work: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
