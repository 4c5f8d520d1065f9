"""`scripts/bench indexes`: the numbers are there and fit each other, what cannot be measured says why, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from redis import Redis

from scripts.benchmarks.indexes.corpus import Shape, make
from scripts.benchmarks.indexes.measure import Bench, K, Plan, Row, recall
from scripts.benchmarks.indexes.report import markdown
from shared.config.settings import load_settings
from tests.servers.redis8 import redis8_settings
from tests.support.world import REPOSITORY, World

#: In the background a shell has its commands ignore SIGINT, which they would inherit.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from scripts.benchmarks.main import app
from shared.system.command import run_command
run_command(app)
"""
SMALL = Plan((20,), ("sqlite",), new=2, queries=4)


def started(world: World, *arguments: str, **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", COMMAND, "indexes", *arguments]
    environment = world.variables(TMPDIR=str(world.root / "temporary"), PYTHONPATH=str(REPOSITORY), **more)
    (world.root / "temporary").mkdir(exist_ok=True)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def bench(plan: Plan, **more: Any) -> Bench:
    return Bench(load_settings(**more), plan, say=lambda line: None)


def test_a_measurement_of_what_there_is(world: World) -> None:
    """One backend that is always there and one whose server is not set."""
    arguments = ("--turns", "300", "--chats", "5", "--new", "30", "--queries", "30", "--backends", "sqlite,qdrant")
    with started(world, *arguments, "--json") as process:
        output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    told = orjson.loads(output)
    assert set(told) == {"machine", "plan", "notes", "rows"}
    assert told["machine"]["cores"] >= 1
    assert told["machine"]["libraries"]["numpy"] == np.__version__
    sqlite, qdrant = told["rows"]
    assert (sqlite["status"], sqlite["turns"], sqlite["chats"]) == ("measured", 300, 5)
    assert [name for name, value in sqlite.items() if value is None] == ["why"]
    assert (sqlite["recall"], sqlite["told"], sqlite["files"]) == (1.0, 1.0, 1)
    assert sqlite["bytes"] > 300 * 384 * 2, "float16"
    assert 30 * 384 * 2 < sqlite["moved_bytes"] < sqlite["bytes"] / 2, "only the part that is new"
    assert sqlite["rss_bytes"] > 10e6
    assert all(0 < middle <= high for middle, high in (sqlite["search_ms"], sqlite["whole_chat_ms"]))
    assert qdrant["status"] == "not available"
    assert "QDRANT_URL" in qdrant["why"]
    assert qdrant["build_seconds"] is None
    values: list[Any] = [
        {name: tuple(value) if isinstance(value, list) else value for name, value in one.items()}
        for one in told["rows"]
    ]
    text = markdown(told, [Row(**one) for one in values])
    assert all(words in text for words in (f"recall@{K}", "| 300 | sqlite |", "not available: ", "Seeded vectors"))
    assert "300 turns, sqlite: building" in errors
    assert list((world.root / "temporary").iterdir()) == []


@pytest.fixture
def redis_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    with redis8_settings() as settings:
        monkeypatch.setenv("REDIS_VECTORS_URL", settings["redis_vectors_url"])
        with Redis.from_url(settings["redis_vectors_url"]) as client:
            yield client


@pytest.mark.slow
def test_a_server_is_left_as_it_was(redis_server: Redis) -> None:
    before = sorted(redis_server.keys())
    (row,) = bench(replace(SMALL, backends=("redis",))).run()
    assert (row.status, row.why) == ("measured", None)
    assert (row.moved_bytes, row.moved_at_least, row.bytes) == (2 * 384 * 4, True, None)
    assert row.recall == 1.0
    assert sorted(redis_server.keys()) == before


def test_the_redis_of_the_queue_is_not_filled(redis_url: str) -> None:
    (row,) = bench(replace(SMALL, backends=("redis",)), redis_url=redis_url, redis_vectors_url=None).run()
    assert (row.status, row.build_seconds) == ("not available", None)
    assert "REDIS_VECTORS_URL is not set" in (row.why or "")


def test_recall_counts_what_an_exact_search_would_find(tmp_path: Path) -> None:
    made = make(tmp_path, Shape(400, 0, 4), 1)
    asked = made.questions(20, 1)
    exact = [
        [ids[row] for row in np.argsort(-(made.vectors[rows.start : rows.stop] @ vector))[:K]]
        for chat, vector in zip(asked.chats, asked.vectors, strict=True)
        for rows, ids in [(made.shape.old_rows(chat), made.shape.ids(chat, grown=False))]
    ]
    assert recall(made, asked, exact) == 1.0
    assert recall(made, asked, [found[:5] for found in exact]) == pytest.approx(0.5, abs=0.05)
    assert recall(made, asked, [[found[0]] * K for found in exact]) == pytest.approx(0.1, abs=0.05)
    assert recall(made, asked, [[one.replace("t", "t9", 1) for one in found] for found in exact]) == 0.0
