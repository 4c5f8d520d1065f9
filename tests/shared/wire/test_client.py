"""What importing the Redis client loads."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "modules",
    [
        "dispatcher.cli.main, dispatcher.answering.worker",
        "dispatcher.cli.main, dispatcher.telegram.bot",
        "nightly.pipeline",
        "shared.delivery.receiver",
    ],
)
def test_no_process_loads_telemetry_with_redis(modules: str) -> None:
    shown = f"import sys, {modules}; print(*(name for name, it in sys.modules.items() if it), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "redis" in loaded
    assert not {name for name in loaded if name.partition(".")[0] == "opentelemetry"}


def test_chroma_finds_the_telemetry_that_it_needs() -> None:
    shown = "import redis, shared.vectors.chroma, chromadb.telemetry.opentelemetry"
    subprocess.run([sys.executable, "-c", shown], timeout=60, check=True)
