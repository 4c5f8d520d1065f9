"""Corruption: whatever is done to a file of a release, it is refused, and no index is opened to find out.

Two readers are asked each time. The day host's receiver gets the damaged tree as `incoming/<run>.<attempt>`: it must refuse before the
throw-away process starts. A dispatcher's `OpenRelease` gets it under the release's own name, in a process that has not imported Chroma:
its vectors must be refused, no private view made, and Chroma still not imported afterwards. Changes that are no corruption (a mode, a
time) and the untouched tree are the control: they must pass both, or the check would prove nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from shared.config.settings import load_settings
from shared.delivery import receiver
from shared.delivery.receiver import Receiver
from shared.errors import ReleaseRefused
from shared.release.manifest import MANIFEST, parse_manifest
from shared.system.files import remove_tree
from tests.chaos.harness import damage
from tests.chaos.harness.damage import Case, flipped, held_up
from tests.chaos.harness.report import Bench, Outcome, chaos
from tests.support.night.receiving import hash_of_manifest
from tests.support.world import REPOSITORY, World

#: The release that is damaged, and the one before it.
RUN, BEFORE = 2, 1

#: With fewer rounds a quarter of the cases is drawn, and these in any case.
FEW_ROUNDS = 10
ALWAYS = (
    f"{MANIFEST} cut to all but its last byte", "all of the last release under this name", "extra empty directory empty"
)  # fmt: skip


class TrialStarted(Exception):
    """In place of the throw-away process: that is where a damaged release must never get."""


@chaos("corruption", "every file of a release deleted, cut, flipped, swapped, linked: refused, and Chroma never asked")
def run(bench: Bench) -> Outcome:
    world = bench.world("corruption")
    _two_releases(world)
    last, good = (world.memory_dir / "releases" / str(number) for number in (BEFORE, RUN))
    cases = [
        *damage.file_cases(good, last),
        *damage.tree_cases(good, last),
        *damage.random_flips(good, bench.random("corruption"), bench.rounds),
    ]
    if bench.rounds < FEW_ROUNDS:
        always = [case for case in cases if case.name in ALWAYS]
        cases = [*bench.random("sample").sample(cases, len(cases) // 4), *always]
    outcome, flips = _every_byte_of_the_manifest(good)
    controls = list(damage.sound_cases())
    with Reader(world) as reader:
        for case in [*cases, *controls]:
            _one_case(world, reader, case, outcome)
    what = f"{outcome.faults} damaged releases of {len(damage.file_names(good))} files were shown to the receiver or the reader"
    outcome.notes.append(
        f"{what}; {flips} flips cover every byte of {MANIFEST}; {len(controls)} harmless changes are the control"
    )
    bench.say(outcome.notes[-1])
    return outcome


def _two_releases(world: World) -> None:
    for day in (BEFORE, RUN):
        for number in range(6):
            chat = ("9912", "-100123")[number % 2]
            world.say(f"d{day}n{number}", f"note {number} of day {day}: heron {number * 7}", chat_id=chat)
        world.command("hmem-night", "run")


#: No case takes longer, on no machine.
LONGEST_SECONDS = 120.0


def _one_case(world: World, reader: Reader, case: Case, outcome: Outcome) -> None:
    asked = [("receiver", _brought)] + ([("reader", reader.ask)] if case.reader else [])
    for who, ask in asked:
        started = time.monotonic()
        held_up.clear()
        answer = ask(world, case)
        if answer is None:  # there was nothing to change
            continue
        if held_up or time.monotonic() - started > LONGEST_SECONDS:
            answer = f"was held up by it, then {answer}"
        outcome.rounds += 1
        outcome.faults += not case.sound
        if answer.startswith("refused") is case.sound:
            outcome.found("torn", f"{case.name}: the {who} {answer}")


def _every_byte_of_the_manifest(good: Path) -> tuple[Outcome, int]:
    """The one file that no other names: each byte of it, in two ways (0x20 turns letters into letters), and how many that were.

    They are not counted among the faults: thousands of one kind would drown the others.
    """
    outcome, content = Outcome(), (good / MANIFEST).read_bytes()
    for mask in (0x01, 0x20):
        for position in range(len(content)):
            try:
                parse_manifest(flipped(content, position, mask), MANIFEST)
                outcome.found("torn", f"{MANIFEST} flipped at {position} by {mask:#x} was read")
            except ReleaseRefused:
                pass
    return outcome, 2 * len(content)


def _damaged(world: World, tree: Path, case: Case, copy: Callable[[str, str], object] = os.link) -> bool:
    """A tree of links to the good release, or of copies, with the case applied; False if the case changes nothing."""
    remove_tree(tree.parent)
    tree.parent.mkdir(parents=True)
    shutil.copytree(world.memory_dir / "releases" / str(RUN), tree, copy_function=copy)
    return case.apply(tree) is not False


def _brought(world: World, case: Case) -> str | None:
    """What the receiver does with it, as if a night had just transferred it; None if there was nothing to damage."""
    memory = world.root / "receiving"
    if not (memory / "current").is_symlink():
        shutil.copytree(world.memory_dir / "releases" / str(BEFORE), memory / "releases" / str(BEFORE))
        (memory / "current").symlink_to(f"releases/{BEFORE}")
    incoming = memory / "incoming" / f"{RUN}.1"
    if not _damaged(world, incoming, case, shutil.copy2):  # files of its own, as rsync makes them
        return None
    try:
        with mock.patch.object(receiver, "run_bounded", side_effect=TrialStarted):
            Receiver(world.settings(), memory).verify(RUN, 1, hash_of_manifest(incoming))
    except ReleaseRefused as error:
        return f"refused it: {error}"
    except TrialStarted:
        return "tried it out"
    except Exception as error:  # noqa: BLE001 - any other error is a finding, and is shown as one
        return f"stumbled: {error!r}"
    finally:
        for link in memory.glob("releases/*"):
            if link.name != str(BEFORE):
                remove_tree(link)
    return "accepted it"


class Reader:
    """A process that opens releases as a dispatcher does, and says after each whether it was refused and whether Chroma was touched."""

    def __init__(self, world: World) -> None:
        self._environment = world.variables(HMEM_STATE_DIR=str(world.root / "reader-state"))
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.checks.damage.corruption"],
            env=self._environment | {"PYTHONPATH": str(REPOSITORY)}, cwd=REPOSITORY,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def ask(self, world: World, case: Case) -> str | None:
        """What became of it, as one sentence; None if there was nothing to damage."""
        tree = world.root / "reading" / "releases" / str(RUN)
        if not _damaged(world, tree, case):
            return None
        answer = self._answer(tree)
        if answer.get("chromadb", True):  # the next case must find a process that has not imported it
            self.__exit__()
        if answer.get("why") is None:
            return "opened it"
        if answer.get("views") or answer.get("chromadb"):
            return f"asked Chroma before it refused: {answer}"
        return f"refused it: {answer['why']}" if answer.get("refused") else f"stumbled: {answer['why']}"

    def _answer(self, tree: Path) -> dict[str, Any]:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{tree}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        found: dict[str, Any] = json.loads(line or '{"why": "the reader died"}')
        return found


def _open_as_a_dispatcher(path: Path) -> dict[str, Any]:
    from shared.search.recall import OpenRelease

    settings = load_settings()
    answer: dict[str, Any] = {"why": None, "refused": True}
    try:
        release = OpenRelease(settings, path)
        try:
            release.open_vectors()
            answer["why"] = release.vectors_missing
        finally:
            release.close()
    except ReleaseRefused as error:
        answer["why"] = str(error)
    except Exception as error:  # noqa: BLE001 - told to the parent, which counts it
        answer |= {"why": repr(error), "refused": False}
    views = settings.hmem_state_dir / "views"
    answer["views"] = len(list(views.iterdir())) if views.is_dir() else 0
    answer["chromadb"] = "chromadb" in sys.modules
    return answer


def _read() -> None:
    """The reader's process: a path a line, an answer a line. One embedder for all: it is not what is tried here."""
    from shared.embedding.known_models import known_model
    from shared.embedding.local.embedder import LocalEmbedder
    from shared.vectors import searching

    class Kept(LocalEmbedder):
        def close(self) -> None:
            pass

    kept = Kept(known_model(load_settings().model_name, "local"))
    with mock.patch.object(searching, "open_embedder", lambda settings: kept):
        for line in sys.stdin:
            print(json.dumps(_open_as_a_dispatcher(Path(line.strip()))), flush=True)


if __name__ == "__main__":
    _read()
