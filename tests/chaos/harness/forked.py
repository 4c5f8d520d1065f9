"""A night in a forked process (tests/support/processes/forked.py): it may be killed at any moment, and harms nobody else."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.support.processes.forked import ForkedProcess
from tests.support.world import World


class ForkedNight(ForkedProcess):
    """A night under way. `gated`: it waits for `open_gate` (a tracer may be put on it first)."""

    def __init__(
        self,
        world: World,
        variables: Mapping[str, str] = MappingProxyType({}),
        *,
        gated: bool = False,
    ) -> None:
        self.log = world.root / "forked.log"
        self.log.write_bytes(b"")
        environment = world.variables(**variables)
        super().__init__(["hmem-night", "run"], environment, self.log, self.log, gated=gated)

    def ended(self, seconds: float = 120.0) -> int | None:
        """Its exit code (negative: the signal that ended it); None if it still runs then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(seconds)
        return self.poll()

    def killed(self, *, family: bool = True) -> int | None:
        """SIGKILL now; with `family` its descendants too, else they live on as orphans (an rsync that still writes)."""
        for pid in [self.pid, *(descendants(self.pid) if family else [])]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self.ended()

    def output(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def night(world: World, **variables: str) -> tuple[int, str]:
    """A whole night to its end; exit code and what it printed."""
    forked = ForkedNight(world, variables)
    try:
        code = forked.ended(600)
        if code is None:
            forked.killed()
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
