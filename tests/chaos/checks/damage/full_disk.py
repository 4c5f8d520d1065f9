"""The disk is full: the night host's, the day host's, and the dispatcher's own; each a small tmpfs, in a mount namespace of this check alone.

The room that is left grows from round to round, so that each step of the night is struck in turn. The night must end with an exit code of
ours, `current` and Redis untouched unless the release was switched to before; with more room the next one completes. By day, tasks are answered.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from shared.errors import PublishFailed, StorageError
from tests.chaos.harness.aftermath import check_dispatcher, check_end, kept, mended, state_of_use
from tests.chaos.harness.forked import night, under_way
from tests.chaos.harness.oracle import Shadow
from tests.chaos.harness.report import Bench, Outcome, bench, chaos
from tests.support.machine import wait_for
from tests.support.world import REPOSITORY, World

#: With fewer rounds nights embed nothing, and the dispatcher is tried on one disk of three.
FEW_ROUNDS = 5
PAGE = os.sysconf("SC_PAGE_SIZE")
#: Room of a disk before it is filled, and after it was enlarged.
SIZE, LARGER = 32 << 20, 64 << 20
FULL = frozenset({0, StorageError.exit_code, PublishFailed.exit_code})


@chaos("full-disk", "the night's disk, the day host's and the dispatcher's fill up, at every step of the night")
def run(given: Bench) -> Outcome:
    mount = ["unshare", "--mount", "--propagation", "private"]
    tried = [*mount, "mount", "-t", "tmpfs", "none", "/mnt"]
    probe = subprocess.run(tried, capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        note = f"skipped: a tmpfs of its own needs root ({probe.stderr.strip() or 'unshare failed'})"
        given.say(note)
        return Outcome(notes=[note])
    command = [*mount, sys.executable, "-m", "tests.chaos.checks.damage.full_disk"]
    command += [str(given.root), str(given.rounds), str(given.seed), *(["quiet"] if given.quiet else [])]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"the check ended with {done.returncode}")
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


class SmallDisk:
    """A tmpfs at `path`; `leave` fills it up to so many bytes, `enlarge` makes room as an owner would."""

    def __init__(self, path: Path, options: str = "") -> None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700{options}", "none", str(path)], check=True)
        self.path, self._ballast = path, path / "ballast"

    def leave(self, room: int) -> None:
        self._ballast.unlink(missing_ok=True)
        self._resize(SIZE)
        stat = os.statvfs(self.path)
        with self._ballast.open("wb") as handle:
            os.posix_fallocate(handle.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - room))

    def enlarge(self) -> None:
        self._resize(LARGER)

    def use_up_inodes(self) -> None:
        with contextlib.suppress(OSError):
            for number in range(10_000):
                (self.path / f"ballast{number}").touch()

    def clear(self) -> None:
        for path in self.path.glob("ballast*"):
            path.unlink()

    def _resize(self, size: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)


def _sweep(world: World, disk: SmallDisk, rounds: int, outcome: Outcome, name: str, *, vectors: bool) -> None:
    """Nights with more and more room, until one succeeds: in small steps if there are many rounds."""
    shadow, struck, room, number = Shadow(), Counter[str](), 0, 0
    _talk(world, shadow, "first", vectors=vectors)
    mended(world, shadow, outcome, "the first night")
    while True:
        number += 1
        _talk(world, shadow, f"r{number}", vectors=vectors)
        disk.leave(room)
        before, what = state_of_use(world), f"{name} with {room} bytes left"
        code, output = night(world)
        check_end(outcome, what, code, output, FULL)
        struck[under_way(world) if code else "nowhere"] += 1
        _nothing_too_early(world, before, outcome, what)
        kept(world, shadow, outcome, what)
        disk.enlarge()
        _talk(world, shadow, f"r{number}late", count=1, vectors=vectors)
        mended(world, shadow, outcome, what, vectors=vectors)
        if code == 0:
            break
        room = max(room + PAGE, int(room * (1 + 4 / max(rounds, 1))))
    places = ", ".join(f"{step} {count}" for step, count in struck.items())
    outcome.notes.append(f"{name}: {number} nights up to {room} bytes of room; struck in {places}")


def _talk(world: World, shadow: Shadow, name: str, count: int = 6, *, vectors: bool) -> None:
    words = "the heron stood at the pond " * (6 if vectors else 60)
    for number in range(count):
        chat = ("9912", "-100123")[number % 2]
        shadow.say(world, f"{name}n{number}", f"{name}x{number}x {words}", chat_id=chat)


def _nothing_too_early(world: World, before: tuple[str, frozenset[bytes]], outcome: Outcome, what: str) -> None:
    """Flushed only what was switched to before."""
    now = state_of_use(world)
    if (gone := before[1] - now[1]) and now[0] == before[0]:
        outcome.found("lost", f"{what}: flushed without a switch: {sorted(gone)[:5]}")


def _both_disks(given: Bench, outcome: Outcome) -> None:
    for name, vectors in (("day host", False), ("night host", given.rounds >= FEW_ROUNDS)):
        place = name.replace(" ", "-")
        world = given.world(place, light=not vectors)
        disk = SmallDisk(world.memory_dir if name == "day host" else world.night_dir)
        _sweep(world, disk, given.rounds, outcome, name, vectors=vectors)
        given.close_world(place)


def _dispatchers_disk(given: Bench, outcome: Outcome) -> None:
    """No room or little from the start, no file more while it runs: every task is answered with what can still be read."""
    disks = [("no room", "", 0), ("a little room", "", 40 * PAGE), ("no inodes", ",nr_inodes=40", SIZE)]
    if given.rounds < FEW_ROUNDS:
        disks = given.random("state").sample(disks, 1)
    for name, options, room in disks:
        place = f"state {name}".replace(" ", "-")
        world, shadow = given.world(place), Shadow()
        shadow.say(world, "t0", "the boiler code is 4711")
        mended(world, shadow, outcome, f"state directory, {name}")
        disk = SmallDisk(world.root / "state", options)
        disk.leave(room)
        running = world.start_dispatcher()
        if options:
            disk.use_up_inodes()
        for number, chat in enumerate(("9912", "another-chat", "9912")):
            outcome.faults += 1
            _ask(world, shadow, f"q{number}", chat, outcome, f"state directory with {name}")
        check_dispatcher(outcome, running, f" on a disk with {name}")
        disk.enlarge()
        disk.clear()
        mended(world, shadow, outcome, f"state directory, {name}")
        given.close_world(place)


def _ask(world: World, shadow: Shadow, task_id: str, chat: str, outcome: Outcome, what: str) -> None:
    world.enqueue(task_id, "What is the boiler code?", chat_id=chat)
    wait_for(lambda: world.redis.exists(f"hcli:results:{task_id}"), f"{what}: an answer")
    answer = json.loads(world.redis.get(f"hcli:results:{task_id}") or b"{}")["output"]
    for role in ("user", "asst"):
        if not shadow.acknowledge(world, key := f"hcli:memory:{task_id}:{role}") and role == "user":
            outcome.found("lost", f"{what}: {key} was not written")
    if "stand-in for Claude" not in answer:
        outcome.found("torn", f"{what}: Claude was not asked: {answer[:300]!r}")


def main() -> None:
    """In the mount namespace."""
    root, rounds, seed, *quiet = sys.argv[1:]
    outcome = Outcome()
    with bench(Path(root), int(rounds), int(seed), quiet=bool(quiet)) as given:
        for part in (_both_disks, _dispatchers_disk):
            part(given, outcome)
            given.say(f"{part.__name__.strip('_').replace('_', ' ')}: {outcome.faults} faults")
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
