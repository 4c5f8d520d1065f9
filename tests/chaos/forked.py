"""A night in a forked process whose imports are done: it begins within milliseconds, may be killed at any moment, and harms nobody else.

The processes come from a fork server, so no thread and no connection of ours is forked with them. Each is the real command (`hmem-night run`
if not told otherwise), with its own environment, umask, log file and exit code.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.conftest import World

#: Imported once by the server; what a night imports late, or only with vectors, included.
PRELOADED = """
tests.chaos.forked nightly.cli nightly.pipeline nightly.vector_cache nightly.progress dispatcher.cli dispatcher.releases shared.probes
shared.backends.chroma shared.embedder_local chromadb chromadb.config onnxruntime tokenizers
""".split()

NIGHT = ("hmem-night", "run")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(PRELOADED)


def _command(variables: dict[str, str], arguments: list[str], log: str, gate: Connection | None, clock: float) -> None:
    """In the child: wait at the gate if there is one, then be the command."""
    os.setsid()
    os.environ.clear()
    os.environ.update(variables)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    if gate is not None:
        gate.recv()
    if clock:
        now = time.time
        time.time = lambda: now() + clock
    from dispatcher.cli import main as hmem
    from nightly.cli import main as hmem_night

    sys.argv = arguments
    hmem() if arguments[0] == "hmem" else hmem_night()


@dataclass
class ForkedNight:
    """A night under way. `gated`: it waits for `open_gate` (a tracer may be put on it first). `clock`: seconds that its clock is off."""

    world: World
    variables: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = NIGHT
    gated: bool = False
    clock: float = 0.0

    def __post_init__(self) -> None:
        self.log = self.world.root / "forked.log"
        self._gate: Connection | None = None
        theirs: Connection | None = None
        if self.gated:
            self._gate, theirs = _context.Pipe()
        self.log.write_bytes(b"")
        variables = self.world.variables(**self.variables)
        self._process = _context.Process(
            target=_command, args=(variables, list(self.arguments), str(self.log), theirs, self.clock), daemon=False
        )
        self._process.start()
        if theirs is not None:
            theirs.close()
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    def open_gate(self) -> None:
        if self._gate is not None:
            self._gate.send(b"go")

    @property
    def running(self) -> bool:
        return self._process.is_alive()

    def wait(self, seconds: float = 120.0) -> int | None:
        """Its exit code (negative: the signal that ended it); None if it still runs then."""
        self._process.join(seconds)
        return self._process.exitcode

    def kill(self, *, family: bool = True) -> int | None:
        """SIGKILL now; with `family` its descendants too, else they live on as orphans (an rsync that still writes)."""
        victims = [self.pid, *(descendants(self.pid) if family else [])]
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self.wait()

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        if self._gate is not None:
            self._gate.close()
        self._process.close()


def night(world: World, *, clock: float = 0.0, arguments: tuple[str, ...] = NIGHT, **variables: str) -> tuple[int, str]:
    """One command (a whole night) to its end; exit code and what it printed."""
    forked = ForkedNight(world, variables, arguments, clock=clock)
    try:
        code = forked.wait(600)
        if code is None:
            forked.kill()
            raise TimeoutError(f"a night did not end within 600 s:\n{forked.output()}")
        return code, forked.output()
    finally:
        forked.close()


def descendants(pid: int) -> list[int]:
    """All children of a process, and theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


def under_way(world: World) -> str:
    """The step that a night was in when it died, by what it has left; "between" outside of all."""
    from nightly.pipeline import step_names

    nights = sorted((p for p in (world.night_dir / "nights").glob("*") if p.name.isdigit()), key=lambda p: int(p.name))
    if not nights or (nights[-1] / "done.json").exists():
        return "between"
    for step in step_names():
        if not (nights[-1] / step).is_dir():
            return step
    return "between"
