"""The night host is gone, or a part of its archive: an empty archive may not shrink memory, and a copy brings everything back.

Without a mirror the owner restores the archive from his own copy; with ARCHIVE_MIRROR `hmem-night verify --repair` does. A damaged or missing
segment, here or in the mirror, is named, stops the night, and is mended from the sound copy.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

from shared.errors import ArchiveDamaged, MirrorFailed, ReleaseRefused
from tests.chaos.harness.aftermath import check_end, kept_and_mended, mended, state_of_use, untouched
from tests.chaos.harness.damage import flipped
from tests.chaos.harness.forked import night
from tests.chaos.harness.oracle import Shadow
from tests.chaos.harness.remote import Remote
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.world import World

#: With fewer rounds there is one mirror, on the other host, and as many damaged segments.
FEW_ROUNDS = 5
#: How a night may end that finds its archive, or the mirror of it, gone or damaged.
STOPPED = frozenset({ArchiveDamaged.exit_code, ReleaseRefused.exit_code, MirrorFailed.exit_code})


@chaos(
    "fresh-host", "a night host with an empty archive, then restored; segments damaged here or in the mirror, repaired"
)
def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    _without_a_mirror(bench, outcome)
    for over_ssh in (False, True) if bench.rounds >= FEW_ROUNDS else (True,):
        _with_a_mirror(bench, outcome, over_ssh=over_ssh)
    _damaged_segments(bench, outcome)
    return outcome


def _settled(bench: Bench, name: str, **variables: str) -> tuple[World, Shadow]:
    """An installation that is two nights old."""
    world, shadow = bench.world(name, light=True), Shadow()
    world.environment |= variables
    for day in (1, 2):
        for number in range(4):
            chat = ("9912", "-100123")[number % 2]
            shadow.say(world, f"d{day}n{number}", f"the heron number{day}a{number}x", chat_id=chat)
        first = Outcome()
        mended(world, shadow, first, "a night")
        if not first.clean:
            raise AssertionError(f"an undisturbed night failed: {first.notes}")
    shadow.say(world, "d1n0", "the heron number1a0y, corrected")
    shadow.say(world, "new", "said after the host was lost, number3x")
    return world, shadow


def _stopped(world: World, outcome: Outcome, what: str, allowed: frozenset[int] = STOPPED, nights: int = 2) -> None:
    """A night ends with an error, and memory is as it was; a second one finds what the first has left."""
    before = state_of_use(world)
    for _ in range(nights):
        code, output = night(world)
        check_end(outcome, what, code, output, allowed)
        if code not in allowed & {0}:
            untouched(world, before, outcome, what)


def _without_a_mirror(bench: Bench, outcome: Outcome) -> None:
    world, shadow = _settled(bench, "no-mirror")
    aside = world.night_dir.rename(world.root / "lost-night")
    _stopped(world, outcome, "a fresh night host", frozenset({ReleaseRefused.exit_code}))
    shutil.copytree(aside / "archive", world.night_dir / "archive", dirs_exist_ok=True)
    kept_and_mended(world, shadow, outcome, "the archive restored from a copy")
    bench.close_world("no-mirror")


def _with_a_mirror(bench: Bench, outcome: Outcome, *, over_ssh: bool) -> None:
    name = "mirror-ssh" if over_ssh else "mirror"
    mirror = bench.root / f"{name}-second-disk"
    mirror.mkdir(parents=True)
    world, shadow = _settled(bench, name, ARCHIVE_MIRROR=str(mirror))
    if over_ssh:
        shell = Remote(world).variables["PUBLISH_SSH"]
        world.environment |= {"ARCHIVE_MIRROR": f"other:{mirror}", "PUBLISH_SSH": shell}
    shutil.rmtree(world.night_dir)
    _stopped(world, outcome, "a fresh night host with a mirror")
    _repaired(world, outcome, "a fresh night host with a mirror")
    kept_and_mended(world, shadow, outcome, "the archive from the mirror")
    world.command("hmem-night", "verify")
    bench.close_world(name)


def _repaired(world: World, outcome: Outcome, what: str) -> None:
    done = world.command("hmem-night", "verify", "--repair", check=False)
    if done.returncode != 0:
        outcome.found("torn", f"{what}: verify --repair ended with {done.returncode}: {done.stdout}{done.stderr}")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "cut to nothing": lambda path: path.write_bytes(b""),
    "cut to half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "without its last byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "with a byte flipped": lambda path: path.write_bytes(flipped(path.read_bytes(), path.stat().st_size // 2)),
}


def _damaged_segments(bench: Bench, outcome: Outcome) -> None:
    mirror = bench.root / "damage-second-disk"
    mirror.mkdir(parents=True)
    world, shadow = _settled(bench, "damage", ARCHIVE_MIRROR=str(mirror))
    mended(world, shadow, outcome, "a night")
    here = world.night_dir / "archive"
    cases = list(itertools.product((here, mirror), sorted(path.name for path in here.glob("seg-*"))[:2], DAMAGES))
    if bench.rounds < len(cases):
        cases = bench.random("damage").sample(cases, max(2, bench.rounds))
    for number, (place, segment, damage) in enumerate(cases):
        what = f"{segment} {damage} {'here' if place == here else 'in the mirror'}"
        shadow.say(world, f"m{number}", f"the heron before damage{number}x")
        DAMAGES[damage](place / segment)
        found = world.command("hmem-night", "verify", check=False)
        if found.returncode not in STOPPED or segment not in found.stderr:
            outcome.found("torn", f"{what}: verify ended with {found.returncode}: {found.stdout}{found.stderr}")
        # a mirror that lacks something may be copied to anew
        _stopped(world, outcome, what, STOPPED | {0} if place == mirror else STOPPED, nights=1)
        _repaired(world, outcome, what)
        if (mirror / segment).read_bytes() != (here / segment).read_bytes():
            outcome.found("torn", f"{what}: after the repair the two copies differ")
        mended(world, shadow, outcome, what)
    bench.close_world("damage")
