"""Fail the n-th system call of a night, n = 1, 2, … until a clean pass: ENOSPC, EIO and EINTR in all that writes.

strace is put on a night that waits with its imports done, follows its threads and children (SQLite, Chroma's Rust, rsync, the trial of
the release) and lets the n-th call of one kind fail in each of them. A first pass without faults counts how many calls there are. With
fewer rounds than failures some are drawn by the seed; with more, every kind goes on until a pass in which nothing was failed.
After a failure the night has ended with one of our exit codes, or rightly with 0; then a clean night mends whatever was left.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from shared.errors import exit_codes
from tests.chaos.checks.points import Stage
from tests.chaos.harness.forked import ForkedNight, night
from tests.chaos.harness.oracle import judge
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.machine import wait_for
from tests.support.world import World

#: Calls that write, make or name something; those that this machine does not have are passed over.
CALLS = (
    "write", "pwrite64", "writev", "fsync", "fdatasync", "sync_file_range", "syncfs", "ftruncate", "fallocate", "copy_file_range",
    "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "openat",
)  # fmt: skip
ERRORS = ("ENOSPC", "EIO", "EINTR")
#: A night that ends later than this hangs; one whose threads could not wake each other is given up sooner.
LONGEST_NIGHT_SECONDS, DEAF_NIGHT_SECONDS = 120.0, 20.0

#: Ways to end. Chroma's C++ part does not see that a write failed, and dies of the file when it is proven: a crash, which the next run mends.
ENDS = frozenset({0, *exit_codes(), -signal.SIGSEGV})

_LINE = re.compile(r"^(\d+) +(?:(\w+)\((?:\d+<(.)|)|<\.\.\. (\w+) resumed>)")


@dataclass(frozen=True)
class Failure:
    call: str
    error: str
    number: int

    def __str__(self) -> str:
        return f"{self.error} at {self.call} {self.number}"


@dataclass
class Traced:
    """How a night under strace ended, and what its trace says."""

    code: int | None
    output: str
    trace: Trace


@dataclass
class Trace:
    """`calls`: most calls of one kind in one thread. `unfair`: (call, number) at which a thread wrote to no file but to a pipe, a socket or
    another thread's alarm, where a disk's errors do not happen. `failed`: calls that were made to fail; `unfairly`: of them, such."""

    calls: Counter[str] = field(default_factory=Counter)
    unfair: set[tuple[str, int]] = field(default_factory=set)
    failed: int = 0
    unfairly: int = 0


def traced_night(world: World, failure: Failure | None = None) -> Traced:
    """One night under strace, which lets one call fail in each of its threads and children."""
    trace = world.root / "strace.txt"
    trace.unlink(missing_ok=True)
    traced = ForkedNight(world, gated=True)
    wanted = ",".join(f"?{call}" for call in CALLS)
    command = ["strace", "-f", "-y", "-qq", "-o", str(trace), "-e", f"trace={wanted}", "-p", str(traced.pid)]
    if failure:
        command += ["-e", f"inject={failure.call}:error={failure.error}:when={failure.number}"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as tracer:
        wait_for(lambda: _traced(traced.pid) or tracer.poll() is not None, "strace to attach")
        if tracer.poll() is not None:
            traced.killed()
            raise AssertionError(
                "strace could not attach. It needs ptrace: run as root, or in a container with SYS_PTRACE."
            )
        traced.open_gate()
        code = traced.ended(DEAF_NIGHT_SECONDS)
        if code is None and not read_trace(trace).unfairly:
            code = traced.ended(LONGEST_NIGHT_SECONDS)
        if code is None:
            traced.killed()
        tracer.wait(600)
    done = Traced(code, traced.output(), read_trace(trace))
    traced.close()
    return done


def _traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    return "TracerPid:\t0\n" not in status


def read_trace(path: Path) -> Trace:
    trace, per_thread, to_a_file = Trace(), Counter[tuple[str, str]](), dict[str, bool]()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        thread, call, opened = match[1], match[2], match[3]
        if call:
            per_thread[thread, call] += 1
            to_a_file[thread] = opened in (None, "/")
            if not to_a_file[thread]:
                trace.unfair.add((call, per_thread[thread, call]))
        if line.endswith("(INJECTED)"):
            trace.failed += 1
            trace.unfairly += not to_a_file.get(thread, True)
    for (_, call), count in per_thread.items():
        trace.calls[call] = max(trace.calls[call], count)
    return trace


class FailingCalls:
    """The histories, each from the same installation."""

    def __init__(self, bench: Bench, stage: Stage) -> None:
        self._bench, self._stage = bench, stage
        self.outcome = Outcome()
        self.codes, self.unfair = Counter[int](), 0

    def fail(self, failure: Failure) -> bool:
        """One history; whether anything was made to fail."""
        world, shadow = self._stage.fresh()
        traced = traced_night(world, failure)
        found = judge(world, shadow, at_rest=traced.code == 0, tidy=False)
        self._judge_code(failure, traced, found)
        shadow.say(world, "t3", "said after the failed night at pond number3x")
        code, output = night(world)
        if code == 0:
            found.add(judge(world, shadow, at_rest=True))
        else:
            found.found("torn", f"{failure}: the next, undisturbed night ended with {code}, {_short(output)}")
        if not found.clean:
            found.notes.append(f"by {failure}: the night ended with {traced.code}")
        self.outcome.add(found)
        self.outcome.rounds += 1
        self.outcome.faults += traced.trace.failed
        return traced.trace.failed > 0

    def _judge_code(self, failure: Failure, traced: Traced, found: Outcome) -> None:
        """One of ours, or rightly 0; a traceback is a defect, and so is a night that hangs."""
        if traced.trace.unfairly:
            self.unfair += 1
        elif traced.code is None:
            found.found("torn", f"{failure}: the night did not end within {LONGEST_NIGHT_SECONDS:g} s")
        else:
            self.codes[traced.code] += 1
            if traced.code not in ENDS or "Traceback (most recent call last)" in traced.output:
                found.found("torn", f"{failure}: exit {traced.code}, {_short(traced.output)}")

    def until_clean(self, call: str, error: str, first: Trace) -> None:
        """n = 1, 2, … until nothing was failed."""
        number = 1
        while (call, number) in first.unfair or self.fail(Failure(call, error, number)):
            number += 1
        self._bench.say(f"{error} at {call}: clean after {number - 1}")


def _short(output: str) -> str:
    """Where in the program a traceback was, and its last line."""
    frames = [line.strip() for line in output.splitlines() if "/nightly/" in line or "/shared/" in line]
    last = output.strip().splitlines()[-1:] or [""]
    return f"{frames[-1] if frames else ''} {last[0][:300]}"


def _drawn(random: Random, first: Trace, rounds: int) -> Iterator[Failure]:
    """So many of all failures: each kind of call and error as often as any other."""
    made = {call: range(1, count + 1) for call, count in first.calls.items()}
    fair = {call: [n for n in numbers if (call, n) not in first.unfair] for call, numbers in made.items()}
    kinds = [(call, error) for call, numbers in fair.items() if numbers for error in ERRORS]
    random.shuffle(kinds)
    for round_number in range(rounds):
        call, error = kinds[round_number % len(kinds)]
        yield Failure(call, error, random.choice(fair[call]))


def _in_one_installation(bench: Bench, name: str, rounds: int, *, light: bool) -> Outcome:
    """So many failures in an installation with keywords only, or with vectors too."""
    stage = Stage(bench, f"calls-{name}", light=light).prepare()
    world, _ = stage.fresh()
    first, tried = traced_night(world).trace, FailingCalls(bench, stage)
    if rounds > sum(first.calls.values()) * len(ERRORS):
        for call in first.calls:
            for error in ERRORS:
                tried.until_clean(call, error, first)
    else:
        for failure in _drawn(bench.random(f"calls {name}"), first, rounds):
            tried.fail(failure)
    ends = ", ".join(f"{code} {count} times" for code, count in sorted(tried.codes.items()))
    kinds = ", ".join(f"{call} {count}" for call, count in first.calls.most_common())
    tried.outcome.notes.append(
        f"{name}: the nights ended with {ends}; {tried.unfair} hit no file and only their turns were judged; "
        f"most calls of one thread: {kinds}"
    )
    return tried.outcome


@chaos("calls", "the n-th call that writes fails with ENOSPC, EIO or EINTR, in Python, SQLite, Chroma and rsync")
def calls(bench: Bench) -> Outcome:
    if shutil.which("strace") is None:
        raise AssertionError("strace is not installed. Run scripts/setup --dev (or: apt-get install strace).")
    with_vectors = bench.rounds // 3
    outcome = _in_one_installation(bench, "keywords", bench.rounds - with_vectors, light=True)
    if with_vectors:
        outcome.add(_in_one_installation(bench, "vectors", with_vectors, light=False))
    return outcome
