"""Two nights at once, and a night that wakes up late: stopped before its switch, before its flush, at each check of its lease.

One of two wins, the other ends with 75. A night whose lease somebody else has taken meanwhile changes nothing more and ends with 19 (or with
16, where another night's release stands in its way). A stray rsync of a killed night writes into a directory that nobody looks at.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shared.errors import LeaseLost, NightRunning, ReleaseRefused
from shared.wire import keys
from tests.chaos.checks.network import requests_of_a_night
from tests.chaos.checks.points import Stage
from tests.chaos.harness.aftermath import check_end, kept, kept_and_mended, mended, state_of_use, untouched
from tests.chaos.harness.forked import ForkedNight, descendants, night
from tests.chaos.harness.proxy import Proxy
from tests.chaos.harness.remote import Remote
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.machine import script, wait_for
from tests.support.world import World

LOST = frozenset({LeaseLost.exit_code})
ONE_OF_TWO = frozenset({0, NightRunning.exit_code})
OWNER = keys.NIGHT_OWNER.encode()
#: How a night looks whether the lease is its own.
GET_OWNER = b"\r\nGET\r\n$%d\r\n%b\r\n" % (len(OWNER), OWNER)
#: Another host's lease, as it would stand in Redis.
STRANGER = b"999999 another-host /var/lib/hmem-night 1"


@chaos("overlap", "two nights at once; a stale one before its switch, flush and each look at its lease; a stray rsync")
def run(bench: Bench) -> Outcome:
    stage, outcome = Stage(bench, "overlap").prepare(), Outcome()
    with Proxy(stage.world.url) as proxy:
        _one_after_the_other(stage, proxy, outcome)
        for _ in range(max(1, bench.rounds // 5)):
            _at_once(stage, outcome)
        _lost_at_each_check(bench, stage, proxy, outcome)
        _stale_before_the_flush(stage, proxy, outcome)
    _stale_before_the_switch(stage, outcome)
    _stray_rsync(stage, outcome)
    return outcome


@contextmanager
def _stopped(proxy: Proxy, world: World, mark: bytes, nth: int = 1) -> Iterator[ForkedNight]:
    """A night stopped (SIGSTOP) just before its nth request with this mark; it goes on after the block."""
    proxy.arm(mark, nth, "hold")
    stale = ForkedNight(world, {"REDIS_URL": proxy.url})
    if not proxy.held.wait(600):
        raise AssertionError(f"no night came to request {nth} with {mark!r}:\n{stale.output()}")
    os.kill(stale.pid, signal.SIGSTOP)
    yield stale
    proxy.release.set()
    os.kill(stale.pid, signal.SIGCONT)


def _ended(stale: ForkedNight, outcome: Outcome, what: str, allowed: frozenset[int]) -> int | None:
    code = stale.ended()
    check_end(outcome, what, code, stale.output(), allowed)
    stale.close()
    return code


def _one_after_the_other(stage: Stage, proxy: Proxy, outcome: Outcome) -> None:
    """The second on the same directory meets the lock, on a copy of it the lease; the first ends well."""
    world, shadow = stage.fresh()
    what = "a second night beside the first"
    with _stopped(proxy, world, b"\r\nSCAN\r\n") as first:
        for place in (world.night_dir, _copy_of_night(world)):
            code, output = night(world, HMEM_NIGHT_DIR=str(place))
            check_end(outcome, what, code, output, frozenset({NightRunning.exit_code}))
    _ended(first, outcome, what, frozenset({0}))
    proxy.disarm()
    kept_and_mended(world, shadow, outcome, what)


def _copy_of_night(world: World) -> Path:
    """Another night host that has the whole archive."""
    place = world.root / "other-night"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(world.night_dir / "archive", place / "archive")
    return place


def _at_once(stage: Stage, outcome: Outcome) -> None:
    world, shadow = stage.fresh()
    what = "two nights in the same instant"
    nights = [ForkedNight(world, gated=True) for _ in range(2)]
    for forked in nights:
        forked.open_gate()
    codes = [_ended(forked, outcome, what, ONE_OF_TWO) for forked in nights]
    if 0 not in codes:
        outcome.found("torn", f"{what}: neither won, they ended with {codes}")
    kept_and_mended(world, shadow, outcome, what)


def _lost_at_each_check(bench: Bench, stage: Stage, proxy: Proxy, outcome: Outcome) -> None:
    """The lease expires and a stranger takes it while the night is stopped before it looks: at each of its looks, the switch's own included."""
    checks = requests_of_a_night(stage, proxy, GET_OWNER)
    chosen = list(range(1, checks + 1))
    if bench.rounds < checks:
        chosen = sorted(bench.random("overlap").sample(chosen, max(1, bench.rounds // 2)))
    for nth in chosen:
        world, shadow = stage.fresh()
        what = f"lease lost before check {nth} of {checks}"
        with _stopped(proxy, world, GET_OWNER, nth) as stale:
            before = state_of_use(world)
            world.redis.set(OWNER, STRANGER)
        _ended(stale, outcome, what, LOST)
        proxy.disarm()
        untouched(world, before, outcome, what)
        _not_taken_back(world, outcome, what)
        kept_and_mended(world, shadow, outcome, what)
    outcome.notes.append(f"the lease was lost at {len(chosen)} of {checks} checks")


def _not_taken_back(world: World, outcome: Outcome, what: str) -> None:
    """The stranger's lease is the stranger's; then the stranger ends."""
    if world.redis.get(OWNER) != STRANGER:
        outcome.found("torn", f"{what}: the stale night took the other's lease: {world.redis.get(OWNER)!r}")
    world.redis.delete(OWNER)


def _taken_over(world: World, outcome: Outcome) -> None:
    """The lease has expired, and another night host with the same archive runs its night."""
    world.redis.delete(OWNER)  # 90 seconds are over
    code, output = night(world, HMEM_NIGHT_DIR=str(_copy_of_night(world)))
    check_end(outcome, "the night that took over", code, output, frozenset({0}))


def _stale_before_the_flush(stage: Stage, proxy: Proxy, outcome: Outcome) -> None:
    """Another night, on a host with the same archive, flushes meanwhile; then a turn comes under a name that the stale night would delete."""
    world, shadow = stage.fresh()
    what = "a stale night before its flush"
    with _stopped(proxy, world, b"\r\nEVALSHA\r\n") as stale:
        _taken_over(world, outcome)
        shadow.say(world, "t2", "said on the second day at pond number2x")  # the very bytes of what was just flushed
        before = state_of_use(world)
    _ended(stale, outcome, what, LOST)
    proxy.disarm()
    untouched(world, before, outcome, what)
    kept_and_mended(world, shadow, outcome, what)


def _stale_before_the_switch(stage: Stage, outcome: Outcome) -> None:
    """The release is brought and verified; before the verb `switch` runs, a stranger has the lease, or another night has published."""
    remote = Remote(stage.world)
    for overtaken, allowed in ((False, LOST), (True, LOST | {ReleaseRefused.exit_code})):
        world, shadow = stage.fresh()
        what = "a stale night before its switch" + (", overtaken" if overtaken else "")
        hook = remote.hook("switch.hang")
        stale = ForkedNight(world, remote.variables)
        remote.reached("switch.hang")
        os.kill(stale.pid, signal.SIGSTOP)
        if overtaken:
            _taken_over(world, outcome)
        else:
            world.redis.set(OWNER, STRANGER)
        before = state_of_use(world)
        hook.unlink()
        os.kill(stale.pid, signal.SIGCONT)
        _ended(stale, outcome, what, allowed)
        remote.clear()
        untouched(world, before, outcome, what)
        world.redis.delete(OWNER)
        kept_and_mended(world, shadow, outcome, what)


def _stray_rsync(stage: Stage, outcome: Outcome) -> None:
    """A night is killed alone, its rsync writes on; the next night neither waits for it nor is harmed by what it writes."""
    world, shadow = stage.fresh()
    what = "a stray rsync"
    real = shutil.which("rsync")
    folder = script(world.root / "slow" / "rsync", f'#!/bin/sh\nexec {real} --bwlimit=20 "$@"\n').parent
    first = ForkedNight(world, {"PATH": f"{folder}:{world.variables()['PATH']}"})
    wait_for(lambda: any(world.memory_dir.glob("incoming/*/*")), "the transfer to begin")
    # stopped, because a busy machine could let them end before the night is dead
    strays = descendants(first.pid)
    _send(strays, signal.SIGSTOP)
    first.killed(family=False)
    outcome.faults += 1
    if not any(map(_alive, strays)):
        raise AssertionError("rsync died with its night: the check has proven nothing")
    kept(world, shadow, outcome, what)
    _send(strays, signal.SIGCONT)
    mended(world, shadow, outcome, f"{what} that still writes")
    wait_for(lambda: not any(map(_alive, strays)), "the stray rsync to end")
    time.sleep(0.05)
    mended(world, shadow, outcome, f"{what} that has ended")
    first.close()


def _alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def _send(pids: list[int], number: signal.Signals) -> None:
    """To those that are there to receive it."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
