"""Measurement of the dispatcher's start."""

from __future__ import annotations

import json
import statistics
import time

import typer
from redis import Redis

from scripts.benchmarks.world import describe_machine, hmem, megabytes, own_world, started


def start(rounds: int = 5) -> None:
    """The dispatcher: seconds from its start to the first answered task, and its memory, without and with a release."""
    describe_machine()
    with own_world() as environment:
        for label, more in (("keywords only", {"EMBEDDER": "none", "NIGHT_INDEXES": "none"}), ("default", {})):
            with Redis.from_url(environment["REDIS_URL"]) as client:
                for number in range(200):
                    turn = {
                        "chat_id": "1",
                        "role": "user",
                        "content": f"note {number} {label}",
                        "timestamp": 1.7e9 + number,
                    }
                    client.set(f"hcli:memory:{label.split()[0]}{number}:user", json.dumps(turn))
            hmem(environment | more, "hmem-night", "run")
            figures = [_one_start(environment | more) for _ in range(rounds)]
            seconds, megabytes = (statistics.median(column) for column in zip(*figures, strict=True))
            typer.echo(f"{label}: first answer after {seconds:.2f} s, RSS {megabytes:.0f} MB (medians of {rounds})")


def _one_start(environment: dict[str, str]) -> tuple[float, float]:
    began = time.perf_counter()
    with started(environment, "hmem", "run") as process:
        hmem(environment, "hmem", "talk", "1", "--say", "note 7")
        seconds = time.perf_counter() - began
        time.sleep(2.5)  # the vectors are loaded in the background
        hmem(environment, "hmem", "talk", "1", "--say", "note 8")
        return seconds, megabytes(process.pid)
