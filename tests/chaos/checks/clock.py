"""The clock lies: a day back, ten years ahead, the same instant twice. Order and retention follow run numbers alone.

Real `hmem-night run` under libfaketime, children included, also with nothing to do.
"""

from __future__ import annotations

import shutil
import subprocess

from tests.chaos.harness.aftermath import check_end, state_of_use
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.world import BINARIES, World

#: For faketime: moved clocks, and two that stand still at the same instant.
CLOCKS = ("+0", "-1d", "+10y", "2026-01-01 00:00:00", "2026-01-01 00:00:00", "-1d", "+0")
#: With fewer rounds there are fewer nights of each kind.
FEW_ROUNDS = 5
KEPT = 3
#: libfaketime 0.9.10 answers the system call that Python sleeps by with EINVAL; select sleeps as well.
SLEEP = "import select, time\ntime.sleep = lambda seconds: select.select([], [], [], seconds) and None\n"


@chaos("clock", "nights a day back, ten years ahead, twice in one instant, and empty ones")
def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    if shutil.which("faketime") is None:
        raise AssertionError("faketime is not installed. Run scripts/setup --dev (or: apt-get install faketime).")
    _wrong_clocks(bench, outcome)
    return outcome


def night_at(world: World, clock: str) -> tuple[int, str]:
    """`hmem-night run` with that clock. The clock that measures spans goes on as it is: a lie about it would only stop every timer."""
    sleeping = world.root / "python" / "sitecustomize.py"
    sleeping.parent.mkdir(exist_ok=True)
    sleeping.write_text(SLEEP)
    variables = world.variables(FAKETIME_DONT_FAKE_MONOTONIC="1", PYTHONPATH=str(sleeping.parent))
    done = subprocess.run(
        ["faketime", "-f", clock, str(BINARIES / "hmem-night"), "run"],
        env=variables, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def _good(world: World, shadow: Shadow, clock: str, outcome: Outcome, what: str) -> None:
    """The night ends well and all is at rest."""
    outcome.rounds += 1
    code, output = night_at(world, clock)
    check_end(outcome, what, code, output, frozenset({0}))
    outcome.add(judge(world, shadow, at_rest=True))


def _runs(world: World) -> list[int]:
    return sorted(int(path.name) for path in world.memory_dir.glob("releases/*"))


def _current(world: World) -> int:
    link = world.memory_dir / "current"
    return int(link.readlink().name) if link.is_symlink() else 0


def _wrong_clocks(bench: Bench, outcome: Outcome) -> None:
    world, shadow = bench.world("clock", light=True), Shadow()
    world.environment["RELEASES_KEPT"] = str(KEPT)
    published: list[int] = []
    clocks = CLOCKS if bench.rounds >= FEW_ROUNDS else CLOCKS[1:5]
    for number, clock in enumerate(clocks):
        what = f"clock {clock}"
        shadow.say(world, f"t{number}", f"the heron number{number}x", timestamp=1_707_500_000.0 + number)
        shadow.say(world, "rewritten", f"the stork version{number}y", timestamp=1_707_500_000.0 - number)
        _good(world, shadow, clock, outcome, what)
        published.append(_current(world))
        if published != sorted(set(published)):
            outcome.found("torn", f"{what}: the runs in use were {published}")
        if _runs(world) != published[-KEPT:]:
            outcome.found("torn", f"{what}: of the runs {published} there remain {_runs(world)}")
    for clock in sorted(set(clocks))[: bench.rounds]:
        _empty(world, shadow, clock, outcome)
    bench.close_world("clock")


def _empty(world: World, shadow: Shadow, clock: str, outcome: Outcome) -> None:
    """A night with nothing to do leaves releases, archive and `current` as they were."""

    def state() -> tuple[object, ...]:
        archive = sorted(path.name for path in (world.night_dir / "archive").iterdir())
        return state_of_use(world), _runs(world), archive

    before = state()
    _good(world, shadow, clock, outcome, f"an empty night, clock {clock}")
    if state() != before:
        outcome.found("torn", f"an empty night with clock {clock} changed {before} to {state()}")
