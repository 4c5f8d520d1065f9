"""What stays in a memory directory: the owner's pin, the readers of releases, and which releases may be removed.

    pinned              the run that the owner went back to: nights publish their releases but do not switch
    releases/<run>      a reader holds a shared lock on the directory itself: it works on a read-only mount, in and out of a container,
                        and the kernel releases it however the reader ends
    releases/.<run>.….gone    being removed; so a crash never leaves a partial release under its name

Nothing here takes the lock of the memory directory: callers that prune or pin hold it.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from shared.errors import ReleaseRefused
from shared.release.manifest import RELEASES, Manifest, current_release, read_manifest, release_dir
from shared.system.files import fsync_dir, modes_of, remove_tree, try_locked_dir, write_atomic

PIN = "pinned"
_RUN = re.compile(r"0|[1-9][0-9]*")

CURRENT, PREVIOUS, PINNED, IN_USE, NEWEST = "current", "previous", "pinned", "in use", "newest"
#: The reason to keep every release while `current` or the pin cannot be read.
UNKNOWN = "current or pin unreadable"


@dataclass(frozen=True)
class Pin:
    """The run that stays current, and since when (unix seconds)."""

    run: int
    since: float


def read_pin(memory_dir: Path) -> Pin | None:
    """The pin, or None; a damaged pin is a ReleaseRefused, since it is the owner's decision."""
    path = memory_dir / PIN
    try:
        record = orjson.loads(path.read_bytes())
        return Pin(int(record["run"]), float(record["since"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise ReleaseRefused(
            f"The pin {path} is damaged ({error!r}), so nothing is switched. "
            "Remove it (hmem release rollback --unpin), or set it again (hmem release rollback RUN)."
        ) from error


def write_pin(memory_dir: Path, run: int) -> None:
    write_atomic(memory_dir / PIN, orjson.dumps(asdict(Pin(run, time.time()))) + b"\n", modes_of(memory_dir))


def remove_pin(memory_dir: Path) -> bool:
    """Whether there was one."""
    try:
        (memory_dir / PIN).unlink()
    except FileNotFoundError:
        return False
    fsync_dir(memory_dir)
    return True


def release_runs(memory_dir: Path) -> list[int]:
    """Runs that have a directory, ascending."""
    folder = memory_dir / RELEASES
    if not folder.is_dir():
        return []
    named = (path for path in folder.iterdir() if _RUN.fullmatch(path.name))
    return sorted(int(path.name) for path in named if path.is_dir() and not path.is_symlink())


@contextmanager
def reading(release: Path) -> Iterator[None]:
    """Keep a release from being pruned. Waits for a prune that is just checking; on file systems without locks, it is read without one."""
    try:
        lock = os.open(release, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # the reader's next access reports it better
        yield
        return
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_SH)
        yield
    finally:
        os.close(lock)


def in_use(release: Path) -> bool:
    """Whether a process reads it now, or this cannot be determined."""
    try:
        with try_locked_dir(release) as free:
            return not free
    except FileNotFoundError:
        return False
    except OSError:
        return True


def reasons(memory_dir: Path, keep: int, coming: int | None = None) -> dict[int, list[str]]:
    """Run → why it is kept; a run without a reason may be removed."""
    found, unknown = marks(memory_dir)
    newest = sorted({*found, *([] if coming is None else [coming])})[-max(keep, 1) :]
    general = [UNKNOWN] if unknown else []
    why = {run: [*special, *([NEWEST] if run in newest else []), *general] for run, special in found.items()}
    for run in [] if unknown else outdated(memory_dir):
        why[run] = [reason for reason in why[run] if reason not in (NEWEST, PREVIOUS)]
    return why


def outdated(memory_dir: Path) -> list[int]:
    """Runs that may contain what the current release has forgotten permanently: a rollback to them is not allowed."""
    path = current_release(memory_dir)
    current = read_manifest(path) if path else None
    if current is None or not current.erasing:
        return []
    return [run for run in release_runs(memory_dir) if run != current.run and not _has_erased(memory_dir, run, current)]


def _has_erased(memory_dir: Path, run: int, current: Manifest) -> bool:
    try:
        return set(current.erasing) <= set(read_manifest(release_dir(memory_dir, run)).erasing)
    except ReleaseRefused:  # its contents are unknown
        return False


def prune_outdated(memory_dir: Path) -> list[int]:
    """Remove releases from before something was forgotten permanently; returns the runs that are still being read."""
    found = outdated(memory_dir)
    prune(memory_dir, len(release_runs(memory_dir)) + 1)  # no other has to go
    return [run for run in found if in_use(release_dir(memory_dir, run))]


def marks(memory_dir: Path) -> tuple[dict[int, list[str]], str | None]:
    """(run → its marks: current, previous, pinned, in use; why these are incomplete, or None)."""
    found: dict[int, list[str]] = {run: [] for run in release_runs(memory_dir)}
    unknown: str | None = None
    for mark, look in ((CURRENT, current_run), (PREVIOUS, _previous_run), (PINNED, _pinned_run)):
        try:
            run = look(memory_dir)
            if run in found:
                found[run].append(mark)
        except (ReleaseRefused, OSError) as error:
            unknown = unknown or str(error)
    for run, names in found.items():
        if in_use(release_dir(memory_dir, run)):
            names.append(IN_USE)
    return found, unknown


def current_run(memory_dir: Path) -> int | None:
    """Run of the current release; None if there is no release at all. ReleaseRefused if `current` does not lead to one of them."""
    path = current_release(memory_dir)
    if path is None and release_runs(memory_dir):
        raise ReleaseRefused(
            f"{memory_dir / 'current'} is missing though there are releases. Choose one (hmem release rollback RUN)."
        )
    if path is not None and (path.parent != (memory_dir / RELEASES).resolve() or not _RUN.fullmatch(path.name)):
        raise ReleaseRefused(
            f"{memory_dir / 'current'} leads to {path}, which is not one of our releases. Choose one (hmem release rollback RUN)."
        )
    return int(path.name) if path else None


def _previous_run(memory_dir: Path) -> int | None:
    path = current_release(memory_dir)
    return read_manifest(path).parent if path else None


def _pinned_run(memory_dir: Path) -> int | None:
    pin = read_pin(memory_dir)
    return pin.run if pin else None


def prune(memory_dir: Path, keep: int, coming: int | None = None) -> list[int]:
    """Remove releases without a reason to keep them; returns their runs. The newest `keep` stay (including the
    coming one), and always the current one, its parent, the pinned one and any that is being read."""
    may_go = [run for run, why in reasons(memory_dir, keep, coming).items() if not why]
    gone = [run for run in may_go if remove_release(release_dir(memory_dir, run))]
    for left in (memory_dir / RELEASES).glob(".*.gone"):  # of a removal that was killed
        remove_tree(left)
    return gone


def remove_release(release: Path) -> bool:
    """Remove a release unless it is being read; whether it was removed."""
    with try_locked_dir(release) as free:
        if free:
            unpublish(release)  # a reader that comes now finds no release; one that was quicker holds the lock
    return free


def unpublish(release: Path) -> None:
    """Remove a release even if it is being read; it is renamed atomically before its first file is deleted. Does nothing if there is none."""
    if not release.exists():
        return
    gone = release.with_name(f".{release.name}.{uuid.uuid4().hex[:8]}.gone")
    release.rename(gone)
    fsync_dir(release.parent)
    remove_tree(gone)
