"""Hypothesis plays the owner, the dispatcher and bad luck: it looks for a sequence of events after which a promise is broken.

Talk (a turn, a half exchange, another version), nights (whole, dead at a named point, with a clock that is wrong, on a fresh host), the
owner's hand (rollback, unpin), readers (opened anew, and one that keeps its release). After every step the oracle judges, the reader that
stayed answers as on its first day, and what left Redis is found in the release in use. A sequence that fails is shrunk to its shortest form.
"""

from __future__ import annotations

import shutil
import signal
from typing import Any

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from shared.errors import HmemError, ReleaseRefused
from shared.release.manifest import current_release
from shared.release.retention import read_pin, release_runs
from shared.search.lexical import LexicalIndex
from shared.search.recall import OpenRelease
from shared.search.types import Query
from shared.turns.chunking import chunks_of
from shared.turns.records import Turn
from tests.chaos.checks.points import POINTS
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.world import World

#: Events of one history.
STEPS = 14
CHATS = ("9912", "-100123", "Team Blue")
DAY = 86_400.0
CLOCKS = (-DAY, -1.0, 1.0, 3653 * DAY)
NUMBERS = st.integers(0, 10_000)


class Broken(AssertionError):
    """A promise did not hold; Hypothesis shrinks the way there."""


class Life(RuleBasedStateMachine):
    """One installation from its first day on. `world` is set by `life_in`."""

    world: World
    outcome: Outcome

    def __init__(self) -> None:
        super().__init__()
        self.outcome.rounds += 1
        for name in ("night", "memory", "state"):
            shutil.rmtree(self.world.root / name, ignore_errors=True)
        self.world.redis.flushall()
        self.shadow = Shadow()
        self.tasks: list[tuple[str, str]] = []
        self.versions = 0
        self.at_rest = False
        self.reader: OpenRelease | None = None
        self.answers: dict[str, list[str]] = {}

    # --- talk

    def _say(self, task: str, chat: str, role: str) -> None:
        self.versions += 1
        text = f"{task} {role} heron version{self.versions}x"
        self.shadow.say(self.world, task, text, chat_id=chat, role=role, timestamp=1_707_500_000.0 + self.versions % 3)
        self.at_rest = False

    @rule(chat=st.sampled_from(CHATS))
    def half_exchange(self, chat: str) -> None:
        self.tasks.append((f"t{len(self.tasks)}", chat))
        self._say(*self.tasks[-1], "user")

    @rule(chat=st.sampled_from(CHATS))
    def exchange(self, chat: str) -> None:
        self.half_exchange(chat)
        self._say(*self.tasks[-1], "asst")

    @precondition(lambda self: self.tasks)
    @rule(number=NUMBERS, role=st.sampled_from(("user", "asst")))
    def another_version(self, number: int, role: str) -> None:
        """Of a turn that was said, or the late other half."""
        self._say(*self.tasks[number % len(self.tasks)], role)

    # --- nights

    def _night(self, *, clock: float = 0.0, allowed: tuple[int, ...] = (0,), crash_at: str = "") -> int:
        before = self._in_redis()
        code, output = night(self.world, clock=clock, HMEM_CRASH_AT=crash_at)
        if code not in allowed:
            raise Broken(f"a night ended with {code}: {output[-1500:]}")
        self._check_what_left(before - self._in_redis())
        self.at_rest = code == 0 and read_pin(self.world.memory_dir) is None
        return code

    def _in_redis(self) -> set[bytes]:
        return set(self.world.redis.scan_iter(match="hcli:memory:*", count=5000))

    def _check_what_left(self, gone: set[bytes]) -> None:
        """Promise 3: what is deleted from Redis is in the release in use, as it was said last."""
        if not gone:
            return
        path = current_release(self.world.memory_dir)
        index = LexicalIndex(path / "lexical") if path else None
        rows = {(chunk.turn_ids, chunk.text) for chunk in index.all_chunks()} if index else set()
        if index:
            index.close()
        for key in gone:
            for chunk in chunks_of(Turn.parse(key, self.shadow.last()[key])):
                if (chunk.turn_ids, chunk.text) not in rows:
                    raise Broken(f"{key!r} left Redis and is not in the release in use")

    @rule()
    def whole_night(self) -> None:
        self._night()

    @rule(clock=st.sampled_from(CLOCKS))
    def night_with_a_wrong_clock(self, clock: float) -> None:
        self._night(clock=clock)

    @rule(point=st.sampled_from(POINTS))
    def night_that_dies(self, point: str) -> None:
        """Where this night does not pass the point, it is a whole one."""
        if self._night(allowed=(0, -signal.SIGKILL), crash_at=point) != 0:
            self.outcome.faults += 1

    @precondition(lambda self: self._releases())
    @rule()
    def night_on_a_fresh_host(self) -> None:
        """The archive is not there: the day host refuses, and nothing is flushed. Then it is put back."""
        before, current = self._in_redis(), current_release(self.world.memory_dir)
        home, away = self.world.night_dir, self.world.root / "away"
        home.rename(away)
        try:
            code, output = night(self.world)
        finally:
            shutil.rmtree(home, ignore_errors=True)
            away.rename(home)
        self.outcome.faults += 1
        if code != ReleaseRefused.exit_code:
            raise Broken(f"a fresh host was not refused but ended with {code}: {output[-1500:]}")
        if before != self._in_redis() or current != current_release(self.world.memory_dir):
            raise Broken("a fresh host has flushed or switched")

    # --- the owner

    def _releases(self) -> list[int]:
        return release_runs(self.world.memory_dir)

    @precondition(lambda self: len(self._releases()) > 1)
    @rule(number=NUMBERS)
    def rollback(self, number: int) -> None:
        run = self._releases()[number % len(self._releases())]
        current = current_release(self.world.memory_dir)
        code, output = night(self.world, arguments=("hmem", "release", "rollback", str(run)))
        if current is not None and current.name == str(run):
            return  # "is already the current one"
        now, pin = current_release(self.world.memory_dir), read_pin(self.world.memory_dir)
        if code != 0 or now is None or now.name != str(run) or pin is None or pin.run != run:
            raise Broken(f"rollback to {run} ended with {code}, {now} is current, {pin}: {output[-1500:]}")
        self.outcome.faults += 1
        self.at_rest = False

    @precondition(lambda self: read_pin(self.world.memory_dir) is not None)
    @rule()
    def unpin(self) -> None:
        code, output = night(self.world, arguments=("hmem", "release", "rollback", "--unpin"))
        if code != 0:
            raise Broken(f"unpin ended with {code}: {output[-1500:]}")

    # --- readers

    def _open(self) -> OpenRelease | None:
        path = current_release(self.world.memory_dir)
        return OpenRelease(self.world.settings(memory_backend="none"), path) if path else None

    def _answers(self, reader: OpenRelease) -> dict[str, list[str]]:
        return {chat: sorted(hit.chunk.text for hit in reader.recall(Query(chat, "heron", 50)).hits) for chat in CHATS}

    @precondition(lambda self: self._releases())
    @rule()
    def reader_restarts(self) -> None:
        """From now on it keeps this release, whatever becomes of it."""
        if self.reader is not None:
            self.reader.close()
        self.reader = self._open()
        self.answers = self._answers(self.reader) if self.reader else {}

    # --- after every step

    @invariant()
    def the_promises_hold(self) -> None:
        found = judge(self.world, self.shadow, at_rest=self.at_rest)
        if not found.clean:
            raise Broken("; ".join(found.notes))

    @invariant()
    def a_reader_keeps_its_release(self) -> None:
        if self.reader is not None and self._answers(self.reader) != self.answers:
            raise Broken(f"the reader of release {self.reader.run} answers otherwise than at first")

    @invariant()
    def a_chat_recalls_only_what_it_said(self) -> None:
        reader = self._open()
        if reader is None:
            return
        try:
            said = self._said()
            for chat, texts in self._answers(reader).items():
                if len(set(texts)) != len(texts) or not set(texts) <= said.get(chat, set()):
                    raise Broken(f"chat {chat} recalls {texts}")
        finally:
            reader.close()

    def _said(self) -> dict[str, set[str]]:
        said: dict[str, set[str]] = {}
        for key, values in self.shadow.said.items():
            for turn in (Turn.parse(key, value) for value in values):
                said.setdefault(turn.chat_id, set()).add(turn.content)
        return said

    def teardown(self) -> None:
        if self.reader is not None:
            self.reader.close()


def life_in(world: World, outcome: Outcome) -> type[Life]:
    """The machine, in this installation."""
    namespace: dict[str, Any] = {"world": world, "outcome": outcome}
    return type("LifeHere", (Life,), namespace)


@chaos("stateful", "Hypothesis seeks talk, nights, deaths, rollbacks and wrong clocks that break a promise")
def stateful(bench: Bench) -> Outcome:
    outcome = Outcome()
    machine = life_in(bench.world("stateful", light=True), outcome)
    hypothesis.seed(bench.seed)(machine)
    chosen = hypothesis.settings(
        max_examples=bench.rounds, stateful_step_count=STEPS, deadline=None, database=None, print_blob=False, report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except (Broken, HmemError) as broken:
        kind = "lost" if isinstance(broken, Broken) else "torn"
        outcome.found(kind, f"{broken} {' | '.join(getattr(broken, '__notes__', []))}")
    return outcome
