"""After a fault: the night may have ended well or with one of our exit codes, what was said is kept, and the next night mends all."""

from __future__ import annotations

from shared.errors import exit_codes
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import Outcome
from tests.support.world import Dispatcher, World

#: How a disturbed night may end: well, or with an error that says what to do. A traceback (1) or a signal is neither.
EXPECTED = frozenset({0, *exit_codes()})


def check_end(outcome: Outcome, what: str, code: int | None, output: str) -> None:
    """A night ended with this; one fault more."""
    outcome.faults += 1
    if code not in EXPECTED or "Traceback" in output:
        outcome.found("torn", f"{what}: the night ended with {code}: {output[-800:]}")


def check_dispatcher(outcome: Outcome, running: Dispatcher) -> None:
    """It ends as it should, and has never stumbled."""
    code = running.stop()
    log = running.log.read_text()
    if code:
        outcome.found("torn", f"the dispatcher ended with {code}: {log[-800:]}")
    if "Traceback" in log:
        outcome.found("torn", f"the dispatcher stumbled: {log[log.index('Traceback') :][:1500]}")


def kept(world: World, shadow: Shadow, outcome: Outcome, what: str) -> None:
    """The promises hold now."""
    _count(outcome, judge(world, shadow), what)


def mended(world: World, shadow: Shadow, outcome: Outcome, what: str) -> None:
    """A night that nobody disturbs ends well, and then all is at rest. One round is done."""
    outcome.rounds += 1
    code, output = night(world)
    if code != 0:
        outcome.found("torn", f"{what}: the next, undisturbed night ended with {code}: {output[-800:]}")
        return
    _count(outcome, judge(world, shadow, at_rest=True), f"after {what}")


def kept_and_mended(world: World, shadow: Shadow, outcome: Outcome, what: str) -> None:
    kept(world, shadow, outcome, what)
    mended(world, shadow, outcome, what)


def _count(outcome: Outcome, found: Outcome, what: str) -> None:
    outcome.add(found)
    if not found.clean:
        outcome.notes.append(f"  that was: {what}")
