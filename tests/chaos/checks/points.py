"""SIGKILL at pairs of named points: A in the first run, B in the one that should have mended it. Single points: tests/nightly/test_crash_points.py.

Each history begins from the same installation (a copy of a template), with turns that are new, rewritten and unreadable, and one that is to be
forgotten for good; something more is said after each death. A point that an ordinary night does not pass (vectors, a model's texts, a mirror) is
tried in an installation that has all.
"""

from __future__ import annotations

import copy
import itertools
import re
import shutil
import signal
from contextlib import ExitStack
from pathlib import Path

from nightly.night.folder import unfinished_run
from nightly.pipeline import step_names
from shared.turns.records import Tombstone
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow, judge
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.nightly.archive.media.kept_media import PHOTO, entry, keep
from tests.servers.ollama_api import DIGEST, OllamaApi
from tests.support.world import World

ROOT = Path(__file__).parent.parent.parent.parent
CODE = [*sorted((ROOT / "nightly").rglob("*.py")), *sorted((ROOT / "shared" / "delivery").rglob("*.py"))]
FOUND = re.findall(r'crash_point\("([\w:-]+)"\)', "".join(path.read_text() for path in CODE))
#: Not `dream:sent`: a night that erases asks no model (dispatcher/features/dream/tests).
INNER = sorted({*FOUND} - {"dream:sent"})
#: Every point at which a night can be made to kill itself.
POINTS = [f"{step}:{at}" for step in step_names() for at in ("begun", "before-commit", "after-commit")] + INNER
#: Where the truth changes hands: pairs of these are tried on real parts, the others in the model.
PAIRED = [point for point in POINTS if point.split(":")[0] in ("archive", "publish", "flush")]

#: What an installation consists of beside Redis.
PLACES = ("night", "memory", "mirror")


class Stage:
    """One installation that is put back to the same state before each history: one night old."""

    def __init__(self, bench: Bench, name: str, *, light: bool = True) -> None:
        self.world = bench.world(name, light=light)
        self._template = self.world.root / "template"
        self._before = Shadow()

    def prepare(self) -> Stage:
        self._before.say(self.world, "t0", "the heron stood at pond number0x")
        self._before.say(self.world, "t1", "the stork flew to pond number1x", chat_id="-100123")
        keep(self.world, "f1", PHOTO, chat_id="-100123")
        extra = {"media": [entry(PHOTO)]}
        self._before.say_and_forget(self.world, "f1", "the crane hid at pond number3z", chat_id="-100123", extra=extra)
        undisturbed(self.world)
        for name in (name for name in PLACES if (self.world.root / name).is_dir()):
            shutil.copytree(self.world.root / name, self._template / name, symlinks=True)
        return self

    def fresh(self) -> tuple[World, Shadow]:
        """The installation as it was after its first night, and one day's turns."""
        for name in PLACES:
            shutil.rmtree(self.world.root / name, ignore_errors=True)
        shutil.copytree(self._template, self.world.root, symlinks=True, dirs_exist_ok=True)
        self.world.redis.flushall()
        shadow = copy.deepcopy(self._before)
        stone = Tombstone("s1", "-100123", 1_800_000_000.0, turn_ids=frozenset(shadow.forgotten), erase=True)
        self.world.push_tombstone(stone)
        shadow.say(self.world, "t1", "no, the stork stayed at pond number1y", chat_id="-100123")
        keep(self.world, "t2", PHOTO)
        shadow.say(self.world, "t2", "said on the second day at pond number2x", extra={"media": [entry(PHOTO)]})
        shadow.put(self.world, b"hcli:memory:bad:user", b"{")
        return self.world, shadow


def undisturbed(world: World, **variables: str) -> None:
    """A night that nobody disturbs ends well, or the check stops."""
    code, output = night(world, **variables)
    if code != 0:
        raise AssertionError(f"an undisturbed night ended with {code}:\n{output[-2000:]}")


def die_at(stage: Stage, points: tuple[str, ...]) -> Outcome | None:
    """One history: die at each point in turn, then finish. None if a point was not passed."""
    world, shadow = stage.fresh()
    outcome = Outcome(rounds=1)
    for number, point in enumerate(points):
        code, output = night(world, HMEM_CRASH_AT=point)
        if code == 0:
            return None
        if code != -signal.SIGKILL:
            raise AssertionError(f"{' then '.join(points)}: a night ended with {code}:\n{output[-2000:]}")
        outcome.faults += 1
        outcome.add(judge(world, shadow))
        photo, task = PHOTO + bytes([number]), f"after{number}"
        keep(world, task, photo)
        shadow.say(world, task, f"said after death number{number}a", extra={"media": [entry(photo)]})
        shadow.say(world, "t0", f"and rewritten after it, number{number}b")
    undisturbed(world)
    outcome.add(judge(world, shadow, at_rest=True))
    if (left := unfinished_run(world.settings())) is not None:
        outcome.found("torn", f"night {left} is not finished")
    if not outcome.clean:
        outcome.notes.append(f"by dying at {' then '.join(points)}")
    return outcome


class Stages:
    """A light installation, and one with vectors, a mirror and a model that writes summaries, made when it is needed."""

    def __init__(self, bench: Bench, stack: ExitStack) -> None:
        self._bench, self._stack = bench, stack
        self._light = Stage(bench, "light").prepare()
        self._whole: Stage | None = None

    def die_at(self, points: tuple[str, ...]) -> Outcome:
        outcome = die_at(self._light, points) or die_at(self.whole, points)
        if outcome is None:
            raise AssertionError(f"no night passes {' then '.join(points)}")
        return outcome

    @property
    def whole(self) -> Stage:
        if self._whole is None:
            api = self._stack.enter_context(OllamaApi({"llama3.2:latest": DIGEST}))
            stage = Stage(self._bench, "whole", light=False)
            stage.world.environment |= {
                "WRITER": "ollama:llama3.2", "WRITES": "summaries", "OLLAMA_URL": api.url, "ARCHIVE_MIRROR": str(stage.world.root / "mirror"),
            }  # fmt: skip
            (stage.world.root / "mirror").mkdir()
            self._whole = stage.prepare()
        return self._whole


@chaos("pairs", "SIGKILL twice, around archive, publish and flush: the second time in the run that mends the first")
def pairs(bench: Bench) -> Outcome:
    """As many pairs as there are rounds, drawn by the seed; all if there are enough rounds."""
    histories = list(itertools.product(PAIRED, repeat=2))
    chosen = histories
    if bench.rounds < len(histories):
        chosen = bench.random("pairs of points").sample(histories, bench.rounds)
    outcome = Outcome(notes=[f"{len(chosen)} of {len(histories)} pairs of points"])
    with ExitStack() as stack:
        stages = Stages(bench, stack)
        for number, points in enumerate(chosen, start=1):
            outcome.add(stages.die_at(points))
            if number % 20 == 0:
                bench.say(f"pairs: {number} of {len(chosen)}")
    return outcome
