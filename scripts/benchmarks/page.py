"""Measurement of the owner's page: how long a browser waits for each page where there are many chats, and one of many turns.

The history is made up (growth.py) and has no vectors. The page is the installed command; every figure is of one request on a connection that is
open, from its sending to the first byte of the answer's body, and to its last. The link leads to the first page, so that is always loaded before.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import typer

from scripts.benchmarks.growth import Turn, _night, _write_history, talk
from scripts.benchmarks.world import BINARIES, own_world

LARGE = "large"
PATHS: dict[str, dict[str, str]] = {
    "/": {},
    "/chats": {},
    "/chats?q=99": {},
    "/chat": {"chat": LARGE},
    "/chat/talk": {"chat": LARGE},
    "/chat/talk (middle)": {"chat": LARGE, "date": "2022-03-01"},
    "/chat/search": {"chat": LARGE, "q": "w1 w2f w5"},
}


@dataclass(frozen=True)
class Took:
    """Seconds until the first byte, and until the last; bytes of the page."""

    first: float
    last: float
    size: int


def history(chats: int, turns: int, large: int) -> Iterator[Turn]:
    """`turns` in so many chats, and one more chat of `large` turns."""
    yield from talk(turns, chats)
    for turn in talk(large, 1, first=turns + turns % 2):
        yield {**turn, "chat_id": LARGE}


def measure(chats: int, chat_turns: int, large: int, rounds: int) -> None:
    with own_world() as environment:
        environment |= {"EMBEDDER": "none", "NIGHT_INDEXES": "none", "STEP_TIMEOUT": "36000"}
        _write_history(Path(environment["HMEM_NIGHT_DIR"]), history(chats, chats * chat_turns, large), vectors=False)
        night = _night(environment, "run")
        typer.echo(f"{chats:,} chats of {chat_turns} turns and one of {large:,}; the night took {night['total']:.0f} s")
        for path, query in PATHS.items():
            _one_path(environment, path, query, rounds)


def _one_path(environment: dict[str, str], path: str, query: dict[str, str], rounds: int) -> None:
    cold, warm = [], []
    for _ in range(3):
        with _visitor(environment) as client:
            cold.append(_take(client, path, query))
            warm += [_take(client, path, query) for _ in range(rounds)]
    firsts, lasts = [[1000 * getattr(took, name) for took in warm] for name in ("first", "last")]
    typer.echo(
        f"{path:20} first page after the start {1000 * statistics.median(took.last for took in cold):6.0f} ms; then first byte p50 "
        f"{statistics.median(firsts):6.1f} ms, whole p50 {statistics.median(lasts):6.1f} / most {max(lasts):6.1f} ms ({cold[0].size:,} bytes)"
    )


def _take(client: httpx.Client, path: str, query: dict[str, str]) -> Took:
    started = time.perf_counter()
    with client.stream("GET", path.partition(" ")[0], params=query or None) as answer:
        parts = answer.iter_raw()
        size = len(next(parts, b""))
        first = time.perf_counter()
        size += sum(map(len, parts))
        ended = time.perf_counter()
    if answer.status_code != 200:
        raise SystemExit(f"bench: {path} answered {answer.status_code}")
    return Took(first - started, ended - started, size)


@contextmanager
def _visitor(environment: dict[str, str]) -> Iterator[httpx.Client]:
    """A new `hmem web`, and a client that has entered."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command: list[Any] = [BINARIES / "hmem", "web", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        try:
            with httpx.Client(base_url=link.partition("/enter")[0], timeout=120) as client:
                _enter(client, link)
                yield client
        finally:
            server.terminate()


def _enter(client: httpx.Client, link: str) -> None:
    for _ in range(200):
        try:
            client.get(link, follow_redirects=True)
        except httpx.ConnectError:
            time.sleep(0.02)
        else:
            return
    raise SystemExit("bench: hmem web does not answer")
