"""The owner's commands for releases: list, verify, roll back, unpin, prune. They work without Redis.

A rollback pins first and then switches, so that a night that ends in between does not move `current`. It is the only way to repair a `current` that
is dangling or points to a damaged release, so it reads as little of the old one as possible.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.delivery.receiver import ReaderDied, run_trial
from shared.errors import InvalidInput, ReleaseRefused
from shared.release import retention
from shared.release.manifest import RELEASES, Manifest, current_release, read_manifest, release_dir, verify
from shared.release.retention import read_pin, reading, release_runs, remove_pin, write_pin
from shared.system.files import locked_dir, own_root, switch_link

UNREADABLE = "unreadable"
#: What a pin means; printed whenever one is set.
PINNED_NIGHTS = "Until hmem release rollback --unpin, nights publish their releases without switching to them, and delete nothing from Redis."

Say = Callable[[str], None]


@dataclass
class Listed:
    """A release for the owner's list; counts are None if the manifest cannot be read."""

    run: int
    created_at: str | None = None
    parent: int | None = None
    turns: int | None = None
    chats: int | None = None
    bytes: int = 0
    indexes: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    error: str | None = None


def list_releases(memory_dir: Path) -> tuple[list[Listed], str | None]:
    """(every release, oldest first; what is wrong with `current` or the pin, or None)."""
    marks, wrong = retention.marks(memory_dir)
    return [_listed(release_dir(memory_dir, run), run, names) for run, names in marks.items()], wrong


def _listed(release: Path, run: int, marks: list[str]) -> Listed:
    listed = Listed(run, bytes=_size(release), marks=marks)
    try:
        manifest = read_manifest(release)
    except ReleaseRefused as error:
        listed.marks, listed.error = [*marks, UNREADABLE], str(error)
        return listed
    listed.created_at, listed.parent, listed.indexes = manifest.created_at, manifest.parent, manifest.indexes
    listed.turns, listed.chats = manifest.turns, manifest.chats
    return listed


def _size(release: Path) -> int:
    paths = (Path(folder) / name for folder, _, names in os.walk(release) for name in names)
    return sum(path.lstat().st_size for path in paths)


def verify_release(release: Path) -> Manifest:
    """Hash every file of a release, which is not pruned meanwhile; ReleaseRefused names the first that differs."""
    with reading(release):
        return verify(release)


def chosen(memory_dir: Path, run: int | None, *, every: bool = False) -> list[Path]:
    """The chosen releases: the named one, all, or else the current one."""
    if run is not None and every:
        raise InvalidInput("RUN and --all exclude each other. Give one of them.")
    if every:
        return [release_dir(memory_dir, found) for found in release_runs(memory_dir)]
    if run is not None:
        return [_named(memory_dir, run)]
    current = retention.current_run(memory_dir)
    if current is None:
        raise InvalidInput(f"There is no release in {memory_dir} yet. Run hmem-night run once, or set HMEM_MEMORY_DIR.")
    return [release_dir(memory_dir, current)]


def _named(memory_dir: Path, run: int) -> Path:
    if run not in release_runs(memory_dir):
        raise InvalidInput(f"There is no release {run} in {memory_dir}. hmem release list shows the existing ones.")
    return release_dir(memory_dir, run)


def planned_rollback(memory_dir: Path, run: int | None) -> str:
    """The question before a rollback. InvalidInput if there is no such release."""
    before, manifest = _current(memory_dir)
    target = _named(memory_dir, _parent(memory_dir, manifest) if run is None else run)
    instead = f" instead of {before.name}" if before else ""
    return f"Serve release {target.name}{instead}, and pin it?"


def roll_back(settings: Settings, run: int | None, say: Say) -> tuple[int, int | None]:
    """Make a release current and pin it, if it is intact, can be read and applies all tombstones: (its run, the previous run)."""
    memory_dir = settings.hmem_memory_dir
    with _locked(memory_dir):
        before, served = _current(memory_dir)
        target = _named(memory_dir, _parent(memory_dir, served) if run is None else run)
        if before == target.resolve():
            raise InvalidInput(f"Release {target.name} is already the current one. Nothing was changed.")
        say(f"Verifying release {target.name} ...")
        manifest = verify(target)
        _refuse_if_forgotten_words_return(memory_dir, served, manifest)
        say(f"Trying release {target.name} in a separate process ...")
        _run_trial(target, say)
        write_pin(memory_dir, manifest.run)
        switch_link(memory_dir / "current", f"{RELEASES}/{manifest.run}")
        return manifest.run, int(before.name) if before and before.name.isdecimal() else None


def _run_trial(target: Path, say: Say) -> None:
    """Refuse a release that crashes its reader. Any other failure (an unavailable embedder) does not stop the owner's rollback."""
    try:
        run_trial(target, None)
    except ReaderDied:
        raise
    except ReleaseRefused as error:
        say(f"Note: {error} Its files are intact, so it is used anyway.")


def _current(memory_dir: Path) -> tuple[Path | None, Manifest | None]:
    """The target of `current`, and its manifest; None for what cannot be read, such as a dangling link: a rollback repairs that."""
    path = manifest = None
    with suppress(ReleaseRefused):
        path = current_release(memory_dir)
        manifest = read_manifest(path) if path else None
    return path, manifest


def _parent(memory_dir: Path, manifest: Manifest | None) -> int:
    if manifest is None:
        if not any((memory_dir / RELEASES).glob("*/")):
            raise InvalidInput("There is no release yet. hmem-night run builds the first.")
        raise InvalidInput(
            "The current release cannot be read, so the previous one is unknown. "
            "Name a run: hmem release rollback RUN (hmem release list shows them)."
        )
    if manifest.parent is None:
        raise InvalidInput(f"Release {manifest.run} is the first one, so there is no earlier one. Name a run.")
    return manifest.parent


def _refuse_if_forgotten_words_return(memory_dir: Path, before: Manifest | None, target: Manifest) -> None:
    """A tombstone that was applied once must stay applied. If the current release cannot be read, the tombstones of all others count."""
    known = [before] if before else _readable(memory_dir)
    missing = {name for manifest in known for name in manifest.tombstones} - set(target.tombstones)
    if not missing:
        return
    fits = [manifest.run for manifest in known if missing <= set(manifest.tombstones)]
    raise ReleaseRefused(
        f"Release {target.run} was built before {len(missing)} request(s) to forget were carried out: the forgotten turns would come back. "
        f"Choose a later one{f', such as {max(fits)}' if fits else ''}, or run the night again."
    )


def _readable(memory_dir: Path) -> list[Manifest]:
    found = []
    for run in release_runs(memory_dir):
        with suppress(ReleaseRefused):
            found.append(read_manifest(release_dir(memory_dir, run)))
    return found


def unpin(memory_dir: Path) -> tuple[bool, int | None]:
    """(whether there was a pin, the run that it named if it could be read)."""
    with _locked(memory_dir):
        pin = None
        with suppress(ReleaseRefused):  # removing it repairs a damaged one
            pin = read_pin(memory_dir)
        return remove_pin(memory_dir), pin.run if pin else None


def prune(memory_dir: Path, keep: int) -> tuple[list[int], dict[int, list[str]]]:
    """(removed runs, run → why it stays)."""
    with _locked(memory_dir):
        removed = retention.prune(memory_dir, keep)
        return removed, retention.reasons(memory_dir, keep)


@contextmanager
def _locked(memory_dir: Path) -> Iterator[None]:
    """The lock that the night's verbs also take."""
    if not memory_dir.is_dir():
        raise InvalidInput(f"{memory_dir} does not exist. Set HMEM_MEMORY_DIR to where the night publishes.")
    with locked_dir(own_root(memory_dir, OURS["hmem_memory_dir"])):
        yield
