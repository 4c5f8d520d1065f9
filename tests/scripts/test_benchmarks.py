"""`scripts/bench indexes`: the numbers are there and fit each other, what cannot be measured says why, and nothing is left behind."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from scripts.benchmarks.indexes import K, clustered, recall
from tests.support.world import REPOSITORY, World


def test_a_measurement_of_what_there_is(world: World) -> None:
    """One backend that is always there and one whose server is not set."""
    (temporary := world.root / "temporary").mkdir()
    arguments = ("--turns=300", "--chats=5", "--new=30", "--queries=30", "--backends=sqlite,redis", "--json")
    command = [sys.executable, "-m", "scripts.benchmarks.main", "indexes", *arguments]
    environment = world.variables(TMPDIR=str(temporary), PYTHONPATH=str(REPOSITORY))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sqlite, redis = json.loads(done.stdout)
    assert (sqlite["turns"], sqlite["recall"]) == (300, 1.0)
    assert 1e6 * sqlite["mb"] > 300 * 384 * 2, "float16"
    assert 30 * 384 * 2 < 1e6 * sqlite["new_mb"] < 1e6 * sqlite["mb"] / 2, "only the part that is new"
    assert all(sqlite[name] > 0 for name in ("build_s", "next_s", "rebuild_s", "open_s", "first_ms", "memory_mb"))
    assert 0 < sqlite["p50_ms"] <= sqlite["p99_ms"]
    assert "the Redis of the queue is not filled" in redis["why"]
    assert list(temporary.iterdir()) == []


def test_recall_counts_what_an_exact_search_would_find() -> None:
    vectors = clustered(4, 100, 0, 1)
    chats = [0, 0, 1, 2, 3]
    questions = np.array([vectors[chat, number] for number, chat in enumerate(chats)])
    exact = [
        [f"t{chat}-{row}:user#1" for row in np.argsort(-(vectors[chat] @ question))[:K]]
        for chat, question in zip(chats, questions, strict=True)
    ]
    assert recall(vectors, chats, questions, exact) == 1.0
    assert recall(vectors, chats, questions, [found[:5] for found in exact]) == pytest.approx(0.5, abs=0.05)
    assert recall(vectors, chats, questions, [[one.replace("t", "t9", 1) for one in x] for x in exact]) == 0.0
