"""What memory adds to one answer: latency and CPU time of a task with memory on and off, when tasks follow closely and when they are spaced.

Each dispatcher has a world of its own (Redis, release, state); the blocks of tasks alternate between them, so that a noisy machine is noisy for
all. Claude is stood in for by a script that answers at once. Turns of today are there before anything is measured, and a block ends when its own
turns have their vectors: CPU time is given up to the last answer, and with that work.
"""

from __future__ import annotations

import random
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from redis import Redis

from scripts.benchmarks.memory import WORDS, Environment, make_release, megabytes
from scripts.benchmarks.overhead import OFF, STAND_IN, alone, ask, cpu_seconds
from scripts.benchmarks.world import describe_machine, own_world

#: Seconds between two rounds of consolidation while it is measured, and between two spaced tasks.
INTERVAL, PAUSE = 2.0, 0.4
#: Seconds after which turns without a vector are no longer waited for.
PATIENCE = 60.0
RUN = [sys.executable, "-P", "-c", "from dispatcher.cli.main import main; main()", "run"]
_MISSING = "SELECT count(*) FROM turns WHERE embedding_model IS NULL"


def answer(
    turns: Annotated[str, typer.Option(help="Turns of a chat in the release.")] = "600,100000",
    today: Annotated[int, typer.Option(help="Turns of today in each chat at the beginning.")] = 40,
    rounds: int = 6,
    tasks: Annotated[int, typer.Option(help="Tasks that follow closely, in each block; half as many are spaced.")] = 20,
    against: Annotated[Path | None, typer.Option(help="Checkout of another version, measured beside this one.")] = None,
) -> None:
    """What memory adds to one answer: latency and CPU time with memory on and off, by itself or beside another version."""
    describe_machine()
    versions = {"": None, **({" (other version)": against.absolute()} if against else {})}
    with ExitStack() as stack:
        measured = []
        for size in (0, *map(int, turns.split(","))):
            for version, code in versions.items():
                world, chats = stack.enter_context(own_world()), max(1, min(rounds, 6000 // max(1, size)))
                label = f"memory on, {size} turns in a chat" if size else "memory off"
                measured.append(dispatcher(stack, world, label + version, chats, size, today, code))
        _measure(measured, alone(Path(world["HOME"]) / "claude", 5 * tasks), rounds, tasks)


@dataclass
class Dispatcher:
    """One that is measured, and its figures: a number a block, in milliseconds."""

    label: str
    environment: Environment
    process: subprocess.Popen[bytes]
    chats: int
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, **more: float) -> None:
        for name, value in more.items():
            self.figures.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.figures[name])


def dispatcher(
    stack: ExitStack, environment: Environment, label: str, chats: int, turns: int, today: int, code: Path | None
) -> Dispatcher:
    """Make its release and its day, and start it; `turns` 0: without memory. `code`: the checkout of another version."""
    stand_in = Path(environment["HOME"]) / "claude"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o700)
    environment |= {"CLAUDE_BIN": str(stand_in), "CONSOLIDATION_INTERVAL": str(INTERVAL)}
    environment |= {"PYTHONPATH": str(code)} if code else {}
    if turns:
        make_release(environment, chats, turns)
    else:
        environment |= OFF
    process = stack.enter_context(_started(environment))
    made = Dispatcher(label, environment, process, chats)
    with Redis.from_url(environment["REDIS_URL"]) as client:
        for number in range(max(1, today // 2) * chats):
            ask(client, f"chat-{number % chats}", f"{WORDS[number % len(WORDS)]} today {number}")
        if b"All right, noted." not in client.lrange("hcli:session_history:chat-0", -1, -1)[0]:
            raise SystemExit(f"bench: {label}: the answers are not those of the stand-in")
    _until_embedded(made)
    return made


@contextmanager
def _started(environment: Environment) -> Iterator[subprocess.Popen[bytes]]:
    with (
        (Path(environment["HOME"]) / "bench.log").open("wb") as log,
        subprocess.Popen(RUN, env=environment, stderr=log, stdout=log) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()


def _measure(dispatchers: list[Dispatcher], own: float, rounds: int, tasks: int) -> None:
    """Print the figures of each; `own`: milliseconds that the script alone takes."""
    chance = random.Random(3)
    for round_ in range(rounds):
        for one in dispatchers[:: 1 if round_ % 2 else -1]:
            _block(one, f"chat-{round_ % one.chats}", tasks, chance)
    for one in dispatchers:
        figures = {name: one.median(name) for name in one.figures}
        typer.echo(
            f"  {one.label}: added, closely {figures['close'] - own:.1f} ms, spaced {figures['spaced'] - own:.1f} ms; CPU a task "
            f"{figures['cpu']:.1f} ms up to the answers, {figures['all']:.1f} with the turns' vectors, {figures['spaced_cpu']:.1f} where they are "
            f"spaced; RSS {megabytes(one.process.pid):.0f} MB"
        )


def _block(one: Dispatcher, chat: str, tasks: int, chance: random.Random) -> None:
    process = one.process.pid
    with Redis.from_url(one.environment["REDIS_URL"]) as client:

        def asked() -> float:
            return ask(client, chat, " ".join(chance.choices(WORDS, k=6)) + "?")

        before = cpu_seconds(process)
        close = [asked() for _ in range(tasks)]
        answered = cpu_seconds(process)
        _until_embedded(one)
        embedded, spaced = cpu_seconds(process), []
        for _ in range(max(1, tasks // 2)):
            time.sleep(PAUSE)
            spaced.append(asked())
        _until_embedded(one)
        ended = cpu_seconds(process)
    one.note(close=statistics.median(close), spaced=statistics.median(spaced))
    one.note(cpu=1000 * (answered - before) / tasks, all=1000 * (embedded - before) / tasks)
    one.note(spaced_cpu=1000 * (ended - embedded) / len(spaced))


def _until_embedded(one: Dispatcher) -> None:
    """Wait until the day store has all turns, with vectors."""
    store = Path(one.environment["HMEM_STATE_DIR"]) / "day-store.sqlite"
    ends = time.monotonic() + PATIENCE
    with Redis.from_url(one.environment["REDIS_URL"]) as client:
        while time.monotonic() < ends and (one.environment.get("DAY_STORE_URL") != "none"):
            if not client.exists("hcli:mem:chats") and store.exists() and not _missing(store):
                return
            time.sleep(0.1)


def _missing(store: Path) -> int:
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        (count,) = connection.execute(_MISSING).fetchone()
        return int(count)
    finally:
        connection.close()
