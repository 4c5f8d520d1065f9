"""The transfer fails: rsync killed at a random byte, rsync that says 23 or 24, or lies; the other host silent at each verb.

`current` must be what it was, nothing may be flushed, and the next night must bring the release anew. One exception is the commit itself: a
switch whose answer is lost has happened, and the next night goes on from there.
"""

from __future__ import annotations

import io
import shutil
import sys
from contextlib import redirect_stdout
from unittest import mock

from tenacity import wait_none

from nightly.night import target
from shared.errors import HmemError, PublishFailed, ReleaseRefused
from tests.chaos.checks.points import Stage
from tests.chaos.harness.aftermath import check_end, kept, mended, night_with, state_of_use, untouched
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow
from tests.chaos.harness.remote import Remote
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.machine import script
from tests.support.world import World

#: Named rsync and first on PATH: runs the real one slowly, and does to it what CHAOS says.
SHIM = """#!{python}
import os, pathlib, signal, subprocess, sys, time
how, amount = os.environ["CHAOS"].split()
place = pathlib.Path(sys.argv[-1])
child = subprocess.Popen(["{rsync}", "--bwlimit=400", *sys.argv[1:]])
if how in ("bytes", "seconds"):
    begun = time.monotonic()
    def done():
        if how == "seconds":
            return time.monotonic() - begun
        return sum(path.lstat().st_size for path in list(place.rglob("*")) if path.exists())
    while child.poll() is None and done() < float(amount):
        time.sleep(0.001)
    child.kill()  # of rsync's three processes the one that somebody would see; the others end by themselves
    child.wait()
    os.kill(os.getpid(), signal.SIGKILL)
child.wait()
files = sorted(path for path in place.rglob("*") if path.is_file())
victim = files[int(amount) % len(files)]
victim.write_bytes(victim.read_bytes()[:-1]) if how == "cut" else victim.unlink()
sys.exit(int(how) if how.isdigit() else 0)
"""


@chaos("transfer", "rsync killed at random bytes and moments, exit codes 23 and 24, and an rsync that lies")
def transfer(bench: Bench) -> Outcome:
    stage, outcome = Stage(bench, "transfer").prepare(), Outcome()
    shim = SHIM.format(python=sys.executable, rsync=shutil.which("rsync"))
    folder = script(stage.world.root / "shim" / "rsync", shim).parent
    size = sum(path.stat().st_size for path in (stage.world.memory_dir / "current/").rglob("*") if path.is_file())
    chance = bench.random("transfer")
    plans = [f"{how} {chance.randrange(100)}" for how in ("23", "24", "missing", "cut")]
    for _ in range(bench.rounds):
        plans.append(chance.choice((f"bytes {chance.randrange(1, size)}", f"seconds {chance.uniform(0, 0.3):.3f}")))
    for plan in plans:
        world, shadow = stage.fresh()
        before, what = state_of_use(world), f"rsync: {plan}"
        code, output = night(world, CHAOS=plan, PATH=f"{folder}:{world.variables()['PATH']}")
        lied = plan.startswith(("missing", "cut"))
        expected = ReleaseRefused.exit_code if lied else PublishFailed.exit_code
        check_end(outcome, what, code, output, frozenset({expected}))
        untouched(world, before, outcome, what)
        _finish(world, shadow, outcome, what)
    outcome.notes.append(f"{len(plans)} broken transfers of {size} bytes")
    return outcome


#: With fewer rounds, as many of the last of these.
FEW_ROUNDS = 6
#: Where the other host may fall silent, and whether the release has been switched to by then.
SILENCES = dict.fromkeys(("begin.hang", "rsync.hang", "verify.hang", "verify.after", "switch.hang"), False)
SILENCES["switch.after"] = True


@chaos("ssh", "the other host falls silent before and after each verb, and in a transfer; a connection breaks once")
def ssh(bench: Bench) -> Outcome:
    stage, outcome = Stage(bench, "ssh").prepare(), Outcome()
    remote = Remote(stage.world)
    silences = list(SILENCES)[-bench.rounds if bench.rounds < FEW_ROUNDS else 0 :]
    for name in silences:
        world, shadow = stage.fresh()
        before = state_of_use(world)
        remote.hook(name)
        code, sentence = _impatient_night(world, remote)
        check_end(outcome, f"silent at {name}", code, sentence, frozenset({PublishFailed.exit_code}))
        if not (remote.hooks / f"{name}.reached").exists():
            raise AssertionError(f"nobody came to {name}: {sentence}")
        remote.clear()
        if SILENCES[name]:
            before = (f"releases/{max(int(path.name) for path in world.memory_dir.glob('releases/*'))}", before[1])
        untouched(world, before, outcome, f"silent at {name}")
        _finish(world, shadow, outcome, f"silent at {name}", remote if bench.rounds >= FEW_ROUNDS else None)
    _a_connection_that_breaks_once(stage, remote, outcome)
    return outcome


def _impatient_night(world: World, remote: Remote) -> tuple[int, str]:
    """A night in this process, whose limits are seconds: a silence of ten minutes is not waited for here."""
    with (
        mock.patch.object(target, "VERB_TIMEOUT_SECONDS", 6.0),
        mock.patch.object(target, "SILENCE_SECONDS", 1),
        mock.patch.object(target.Target.bring.retry, "wait", wait_none()),
    ):
        try:
            with mock.patch.dict(world.environment, remote.variables), redirect_stdout(io.StringIO()):  # its log
                world.night()
        except HmemError as error:
            return error.exit_code, str(error)
    return 0, "the night succeeded"


def _a_connection_that_breaks_once(stage: Stage, remote: Remote, outcome: Outcome) -> None:
    world, shadow = stage.fresh()
    broken = remote.hook("rsync.break")
    code, output = night_with(world, remote.variables)
    check_end(outcome, "a connection that breaks once", code, output, frozenset({0}))
    if broken.exists():
        raise AssertionError("the connection did not break")
    _finish(world, shadow, outcome, "a connection that breaks once")


def _finish(world: World, shadow: Shadow, outcome: Outcome, what: str, remote: Remote | None = None) -> None:
    """What was said is kept; one more turn; the next night, over the same way, mends it."""
    kept(world, shadow, outcome, what)
    shadow.say(world, "late", "said after the transfer broke, number1d")
    with mock.patch.dict(world.environment, remote.variables if remote else {}):
        mended(world, shadow, outcome, what)
