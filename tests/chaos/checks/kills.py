"""kill -9 at random times: real Redis, Chroma and rsync, while somebody keeps talking.

A writer adds, rewrites and half-writes exchanges all the time, also while the judge looks. Each round starts a night and kills it: every
other one at a moment drawn evenly from the length of a whole night, the rest within a step drawn evenly from all (most take a few
milliseconds of two seconds, and would hardly ever be hit). Half of the dead take all their children along; of the others a stray rsync
writes on. The next round's night finds what that left. Now and then a night may finish, the writer pauses, and all must be at rest.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

from nightly.pipeline import step_names
from tests.chaos.harness.forked import ForkedNight, night, under_way
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.world import World

CHATS = ("9912", "-100123", "Team Blue")
#: Rounds after which the night may finish and all comes to rest.
REST_EVERY = 8
#: Turns of one installation: from then on they are rewritten only, so that a night stays short.
MOST_EXCHANGES = 60
#: Rounds in one installation.
ROUNDS_PER_WORLD = 100


class Writer(threading.Thread):
    """Somebody who talks: new exchanges, halves of exchanges, late answers, rewritten turns."""

    def __init__(self, world: World, shadow: Shadow, random: Random) -> None:
        super().__init__(daemon=True, name="writer")
        self._world, self._shadow, self._random = world, shadow, random
        self._asked: list[tuple[str, str]] = []  # task id and chat of each exchange
        self._version = 0
        self._ended, self._talking = threading.Event(), threading.Event()
        self._idle = threading.Event()
        self._talking.set()

    def run(self) -> None:
        while not self._ended.is_set():
            if not self._talking.wait(0.05):
                self._idle.set()
                continue
            self._idle.clear()
            self._say_something()
            self._ended.wait(self._random.expovariate(6.0))

    def _say_something(self) -> None:
        """One write."""
        self._version += 1
        number = len(self._asked)
        if number < MOST_EXCHANGES and (number == 0 or self._random.random() < 0.4):
            self._asked.append((f"t{number}", self._random.choice(CHATS)))
            role, (task, chat) = "user", self._asked[-1]
        else:  # an answer that comes late, or another version of either side
            task, chat = self._random.choice(self._asked)
            role = self._random.choice(("user", "asst"))
        words = " ".join(self._random.choices(("heron", "stork", "pond", "reed", "ferry", "night"), k=5))
        text = f"{words} {task}{role}v{self._version}x"
        self._shadow.say(self._world, task, text, chat_id=chat, role=role, timestamp=1_707_500_000.0 + self._version)

    def pause(self) -> None:
        """Returns when nothing is being written."""
        self._idle.clear()
        self._talking.clear()
        self._idle.wait(600)

    def go_on(self) -> None:
        self._talking.set()

    def end(self) -> None:
        self._ended.set()
        self.join(30)


class Kills:
    """The rounds in one installation."""

    def __init__(self, bench: Bench, number: int, died_in: Counter[str], lengths: list[float]) -> None:
        self._random = bench.random(f"kills {number}")
        self._bench, self.died_in, self._lengths = bench, died_in, lengths
        self.world, self.shadow = bench.world(f"kills{number}"), Shadow()
        self.writer = Writer(self.world, self.shadow, bench.random(f"writer {number}"))
        self.outcome = Outcome()

    def rounds(self, count: int) -> Outcome:
        self.writer.start()
        try:
            self._whole_night()
            for number in range(1, count + 1):
                self._kill_one()
                if number % REST_EVERY == 0 or number == count:
                    self._rest()
                    self._bench.say(f"{self.outcome.faults} kills, {self._summary()}")
        finally:
            self.writer.end()
        return self.outcome

    def _kill_one(self) -> None:
        """A night, dead at a random moment; one that was quicker has simply ended."""
        forked = ForkedNight(self.world)
        if self.outcome.rounds % 2:
            code = self._wait_for_step(forked, self._random.choice(step_names()))
        else:
            code = forked.ended(self._random.uniform(0, statistics.median(self._lengths[-9:])))
        self.outcome.rounds += 1
        if code is None:
            family = self._random.random() < 0.5
            code = forked.killed(family=family)
        if code is not None and code < 0:
            self.outcome.faults += 1
            self.died_in[under_way(self.world)] += 1
        elif code != 0:
            self.outcome.found("torn", f"a night ended with {code}: {forked.output()[-600:]}")
        forked.close()
        self.outcome.add(judge(self.world, self.shadow))

    def _wait_for_step(self, forked: ForkedNight, step: str) -> int | None:
        """Until somewhere in that step; the exit code if the night ends before."""
        begun = time.time()
        while forked.poll() is None:
            if any(_begun_at(path) >= begun for path in self.world.night_dir.glob(f"nights/*/{step}.tmp")):
                return forked.ended(self._random.uniform(0, self._length_of(step)))
            time.sleep(0.0005)
        return forked.ended()

    def _length_of(self, step: str) -> float:
        """Seconds that the step took when it was last done."""
        results = sorted(self.world.night_dir.glob(f"nights/*/{step}/result.json"), key=_begun_at)
        return float(json.loads(results[-1].read_bytes())["seconds"]) + 0.003 if results else 0.0

    def _whole_night(self) -> None:
        """A night that nobody disturbs, to know how long one takes."""
        started = time.monotonic()
        code, output = night(self.world)
        self._lengths.append(time.monotonic() - started)
        if code != 0:
            self.outcome.found("torn", f"an undisturbed night ended with {code}: {output[-600:]}")

    def _rest(self) -> None:
        """The night may finish, first while the talk goes on, then in silence."""
        self._whole_night()
        self.outcome.add(judge(self.world, self.shadow))
        self.writer.pause()
        code, output = night(self.world)
        if code != 0:
            self.outcome.found("torn", f"a quiet night ended with {code}: {output[-600:]}")
        self.outcome.add(judge(self.world, self.shadow, at_rest=True, vectors=True))
        self.writer.go_on()

    def _summary(self) -> str:
        counts = self.outcome
        return f"{len(self.shadow.said)} turns, lost {counts.lost}, doubled {counts.doubled}, torn {counts.torn}"


def _begun_at(path: Path) -> float:
    try:
        return path.stat().st_ctime
    except FileNotFoundError:  # renamed meanwhile: the step is done
        return 0.0


@chaos(
    "kills",
    "kill -9 at random times with real Redis, Chroma and rsync, while turns are added, rewritten and half-written",
)
def kills(bench: Bench) -> Outcome:
    outcome, died_in, lengths = Outcome(), Counter[str](), list[float]()
    written = 0
    for number, first in enumerate(range(0, bench.rounds, ROUNDS_PER_WORLD)):
        part = Kills(bench, number, died_in, lengths)
        outcome.add(part.rounds(min(ROUNDS_PER_WORLD, bench.rounds - first)))
        written += sum(map(len, part.shadow.said.values()))
        bench.close_world(f"kills{number}")
    places = ", ".join(f"{step} {count}" for step, count in died_in.most_common())
    seconds = statistics.median(lengths)
    outcome.notes.append(f"killed in: {places}; a whole night takes {seconds:.2f} s; {written} turns written")
    return outcome
