"""The network to Redis fails at a chosen request: after Redis has carried it out and before the answer is there, before it arrives, or for good.

By night each request of a small night is cut once, in each of these ways; by day each of the dispatcher's scripts. A repeat must be harmless:
what a lost answer hides has happened.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections import Counter
from typing import cast

from dispatcher.queue.scripts import script_text
from shared.errors import exit_codes
from shared.wire import keys
from tests.chaos.checks.points import Stage, undisturbed
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.proxy import Action, Proxy
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.machine import wait_for
from tests.support.world import Dispatcher, World

#: The ways to cut a request; the last costs seconds, since every further request is tried ten times.
CUTS: tuple[Action, ...] = ("reply", "request", "gone")
#: What the night asks of Redis, by name: each must be among the requests that are cut.
NIGHT_REQUESTS = (b"INCRBY", b"SCAN", b"MGET", b"SET", b"EVAL", b"EVALSHA")
#: With fewer rounds, only the flush of these.
FEW_ROUNDS = 5
SCRIPTS = ("claim", "finish", "bury", "recover")


@chaos("network", "Redis cut before and after each request of the night, for a moment and for good")
def by_night(bench: Bench) -> Outcome:
    stage = Stage(bench, "night").prepare()
    with Proxy(stage.world.url) as proxy:
        count = requests_of_a_night(stage, proxy)
        cases = list(itertools.product(range(1, count + 1), CUTS))
        chosen = cases if bench.rounds >= len(cases) else bench.random("network").sample(cases, bench.rounds)
        outcome = Outcome(notes=[f"{len(chosen)} of {len(cases)} cuts of a night's {count} requests"])
        codes = Counter(_cut_one(stage, proxy, b"", number, action, outcome) for number, action in sorted(chosen))
        few = bench.rounds < FEW_ROUNDS
        for mark in NIGHT_REQUESTS[-1 if few else 0 :]:  # whatever was drawn, each kind; the flush always
            _cut_one(stage, proxy, b"\r\n%b\r\n" % mark, 1, "reply", outcome)
    outcome.notes.append(f"these nights ended with {dict(sorted(codes.items(), key=str))}")
    bench.say(" · ".join(outcome.notes))
    return outcome


def requests_of_a_night(stage: Stage, proxy: Proxy) -> int:
    """How many an undisturbed night makes."""
    world, _ = stage.fresh()
    proxy.arm(b"", nth=0)
    undisturbed(world, REDIS_URL=proxy.url)
    return proxy.disarm()


def _cut_one(stage: Stage, proxy: Proxy, mark: bytes, number: int, action: Action, outcome: Outcome) -> int | None:
    """One night with one cut, and what comes after; its exit code."""
    world, shadow = stage.fresh()
    what = f"{action} of request {number} {mark.decode().strip()}".rstrip()
    proxy.arm(mark, number, action)
    code, output = night(world, REDIS_URL=proxy.url)
    struck = proxy.struck
    proxy.disarm()
    if not struck:
        raise AssertionError(f"no night makes {what}")
    outcome.faults += 1
    if code not in EXPECTED or "Traceback" in output:
        outcome.found("torn", f"{what}: the night ended with {code}: {output[-800:]}")
    _count(outcome, judge(world, shadow), what)  # the promises hold now
    shadow.say(world, "late", f"said after the cut, number{number}c")
    _mended(world, shadow, outcome, what)
    return code


@chaos("network-day", "Redis cut before and after each script of the dispatcher: claim, finish, bury, recover")
def by_day(bench: Bench) -> Outcome:
    world, shadow, outcome = bench.world("day", light=True), Shadow(), Outcome()
    shas = {name: _loaded(world, name) for name in SCRIPTS}
    with Proxy(world.url) as proxy:
        _left_by_a_dead_worker(world, "lost", 1)
        proxy.arm(shas["recover"])
        running = world.start_dispatcher(REDIS_URL=proxy.url)
        _answered(world, shadow, "lost", 1, outcome, "recover cut (reply)")
        _struck(proxy, outcome, "recover")
        number = 1
        for name, action in itertools.product(("claim", "finish"), ("reply", "request", "gone")):
            number += 1
            proxy.arm(shas[name], 1, cast(Action, action))
            world.enqueue(f"t{number}", f"the heron number{number}x")
            if action == "gone":
                wait_for(lambda: proxy.struck, f"{name} to be cut")
                threading.Timer(1.0, proxy.disarm).start()
            _answered(world, shadow, f"t{number}", number, outcome, f"{name} cut ({action})")
            _struck(proxy, outcome, name)
        for count, action in enumerate(("reply", "request"), start=1):
            proxy.arm(shas["bury"], 1, cast(Action, action))
            world.redis.rpush(keys.TASKS, b'{"task_id": "bad%d", "message": 7, "chat_id": "9912"}' % count)
            wait_for(lambda: proxy.struck, "bury to be cut")
            _buried(world, count, outcome, f"bury cut ({action})")
            _struck(proxy, outcome, "bury")
        _check_dispatcher(outcome, running)
    _nothing_in_flight(world, outcome)
    outcome.add(judge(world, shadow))
    _mended(world, shadow, outcome, "a day of cuts")
    outcome.rounds = outcome.faults
    return outcome


def _loaded(world: World, name: str) -> bytes:
    """The script is in Redis already (else the first try ends with NOSCRIPT, and nothing of interest is cut); what marks its calls."""
    text = script_text(f"queue/{name}").encode()
    world.redis.script_load(text)
    return hashlib.sha1(text).hexdigest().encode()


def _left_by_a_dead_worker(world: World, task_id: str, number: int) -> None:
    raw = world.enqueue(task_id, f"the heron number{number}x")
    world.redis.delete(keys.TASKS)
    world.redis.sadd(keys.WORKERS, "dead-worker")
    world.redis.hset(keys.inflight("dead-worker"), "dead-worker:000000000001", raw)
    world.redis.hset(keys.BUSY, "9912", "dead-worker:000000000001")


def _answered(world: World, shadow: Shadow, task_id: str, number: int, outcome: Outcome, what: str) -> None:
    """The task is answered once: result, both turns, two lines of history, one in the counters."""
    outcome.faults += 1
    wait_for(lambda: world.redis.exists(keys.result(task_id)) and not _in_flight(world), f"{what}: an answer")
    for role in ("user", "asst"):
        if not shadow.acknowledge(world, key := keys.turn(task_id, role)):
            outcome.found("lost", f"{what}: {key} was not written")
    said = json.loads(cast(bytes, world.redis.get(keys.turn(task_id, "user")) or b"{}")).get("content")
    if said != f"the heron number{number}x":
        outcome.found("lost", f"{what}: {task_id} says {said!r}")
    history = world.redis.llen(keys.history("9912"))
    days = (world.redis.hget(day, "tasks") for day in world.redis.scan_iter("hcli:stats:*"))
    tasks = sum(int(cast(bytes, count or b"0")) for count in days)
    if (history, tasks) != (2 * number, number):
        outcome.found("doubled", f"{what}: {history} lines of history and {tasks} counted tasks after {number} tasks")


def _buried(world: World, count: int, outcome: Outcome, what: str) -> None:
    outcome.faults += 1
    wait_for(lambda: not _in_flight(world) and not world.redis.llen(keys.TASKS), f"{what}: nothing left in flight")
    dead = world.redis.llen(keys.DEAD)
    if dead != count:
        outcome.found("lost" if dead < count else "doubled", f"{what}: {dead} dead letters instead of {count}")


def _struck(proxy: Proxy, outcome: Outcome, name: str) -> None:
    if not proxy.struck:
        raise AssertionError(f"no {name} was cut: the check has proven nothing")
    proxy.disarm()


def _in_flight(world: World) -> int:
    workers = cast("set[bytes]", world.redis.smembers(keys.WORKERS))
    return sum(int(world.redis.hlen(keys.inflight(worker.decode()))) for worker in workers)


def _nothing_in_flight(world: World, outcome: Outcome) -> None:
    for key in (keys.TASKS, keys.BUSY):
        if world.redis.exists(key):
            outcome.found("torn", f"{key} is not empty after the dispatcher has ended")
    for key in world.redis.scan_iter(match="hcli:mem:inflight:*"):
        outcome.found("torn", f"{key!r} is left")


# ── After a fault: the night may have ended well or with one of our exit codes, what was said is kept, and the next night mends all.

#: How a disturbed night may end: well, or with an error that says what to do. A traceback (1) or a signal is neither.
EXPECTED = frozenset({0, *exit_codes()})


def _check_dispatcher(outcome: Outcome, running: Dispatcher) -> None:
    """It ends as it should, and has never stumbled."""
    code = running.stop()
    log = running.log.read_text()
    if code:
        outcome.found("torn", f"the dispatcher ended with {code}: {log[-800:]}")
    if "Traceback" in log:
        outcome.found("torn", f"the dispatcher stumbled: {log[log.index('Traceback') :][:1500]}")


def _mended(world: World, shadow: Shadow, outcome: Outcome, what: str) -> None:
    """A night that nobody disturbs ends well, and then all is at rest. One round is done."""
    outcome.rounds += 1
    code, output = night(world)
    if code != 0:
        outcome.found("torn", f"{what}: the next, undisturbed night ended with {code}: {output[-800:]}")
        return
    _count(outcome, judge(world, shadow, at_rest=True), f"after {what}")


def _count(outcome: Outcome, found: Outcome, what: str) -> None:
    outcome.add(found)
    if not found.clean:
        outcome.notes.append(f"  that was: {what}")
