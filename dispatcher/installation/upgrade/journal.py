"""What an upgrade has done so far: `<HMEM_STATE_DIR>/upgrades/<time>/upgrade.json`, written before and after each step, so that it survives a kill.

Another version of the program may read it: the one that was installed meanwhile.

What is installed (target, commit, wheels) is noted beside the packages in `packages.json`. Where root upgrades for another user's state directory
that is in the environment, which the dispatcher cannot write to: nothing that it writes decides what root installs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import orjson

from dispatcher.memory.store.kept import UPGRADES
from shared.errors import FormatNewer, InvalidInput, StorageError
from shared.system.files import locked_file, own_dir, read_own, write_atomic
from shared.system.processes import died_here, process_name

FORMAT, NAME, LOCK, PACKAGES = 1, "upgrade.json", "lock", "packages.json"
#: In the environment, where the packages may not lie in the state directory.
IN_ENVIRONMENT = "hmem-upgrades"
_OF_PACKAGES = ("target", "commit", "wheel", "reached")
#: Finished upgrades that are kept, the newest: one to go back to, and one more.
KEPT = 2

Outcome = Literal["", "done", "back"]


@dataclass
class UpgradeJournal:
    """`step`: the next one to do; `back`: the way is back; `outcome`: "" until it is finished. Formats: place → number before it began.

    Of a checkout: `commit` is the one before, `reached` the one that the upgrade brought.
    """

    folder: Path
    packages: Path
    from_version: str
    target: str | None
    commit: str | None = None
    wheel: str | None = None
    reached: str | None = None
    revision: str | None = None
    formats: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    services: list[str] = field(default_factory=list)
    step: str = "keep"
    back: bool = False
    why: str = ""
    outcome: Outcome = ""
    finished_at: float | None = None

    def write(self) -> None:
        record = {
            name: value for name, value in asdict(self).items() if name not in ("folder", "packages", *_OF_PACKAGES)
        }
        write_atomic(self.folder / NAME, orjson.dumps({"format": FORMAT, **record}, option=orjson.OPT_INDENT_2) + b"\n")

    def write_packages(self) -> None:
        """By whoever installs, not as the owner of the state directory."""
        record = {name: getattr(self, name) for name in _OF_PACKAGES}
        write_atomic(self.packages / PACKAGES, orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")

    def next(self, step: str) -> None:
        """The step before this one is done, durably."""
        self.step = step
        self.write()

    def finish(self, outcome: Outcome) -> None:
        self.outcome, self.finished_at, self.step = outcome, time.time(), ""
        self.write()

    @property
    def wheel_path(self) -> Path | None:
        return self.packages / self.wheel if self.wheel else None


def packages_dir(folder: Path, prefix: Path) -> Path:
    """Where the packages of an upgrade lie: in its folder if the state directory is ours, else in the environment."""
    ours = folder.parent.parent.stat().st_uid == os.geteuid()
    return folder if ours else prefix / IN_ENVIRONMENT / folder.name


def read_journal(folder: Path, prefix: Path) -> UpgradeJournal | None:
    """None where nothing was noted yet. FormatNewer or StorageError for one that this program cannot follow."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        record: dict[str, Any] = orjson.loads(read_own(path))
        if record.pop("format") > FORMAT:
            raise FormatNewer(
                f"{path} was written by a newer hcli-memory, so this one cannot go on. Install that version, then run it there."
            )
        for name in _OF_PACKAGES:  # only what lies beside the packages counts
            record.pop(name, None)
        packages = packages_dir(folder, prefix)
        if (packages / PACKAGES).exists():
            noted = orjson.loads(read_own(packages / PACKAGES))
            record |= {name: noted.get(name) for name in _OF_PACKAGES}
        elif not record["outcome"]:
            raise StorageError(
                f"{packages / PACKAGES} is missing, so it is unknown what {folder} was to install. Run this as who began it, or move {folder} away."
            )
        known = {one.name for one in fields(UpgradeJournal)} - {"folder", "packages"}
        return UpgradeJournal(
            folder, packages, **{"target": None} | {name: value for name, value in record.items() if name in known}
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{path} cannot be read ({error!r}), so it is unknown how far that upgrade came. Look at the folder, move it away, then run hmem upgrade."
        ) from error


def journals(state_dir: Path, prefix: Path) -> list[UpgradeJournal]:
    """Oldest first."""
    base = state_dir / UPGRADES
    folders = sorted(path for path in base.iterdir() if path.is_dir()) if base.is_dir() else []
    return [found for folder in folders if (found := read_journal(folder, prefix))]


def unfinished(state_dir: Path, prefix: Path) -> UpgradeJournal | None:
    """The newest that has not come to its end."""
    return next((one for one in reversed(journals(state_dir, prefix)) if not one.outcome), None)


def new_folder(state_dir: Path) -> Path:
    name = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return own_dir(state_dir, UPGRADES, name)


def to_prune(state_dir: Path, prefix: Path) -> list[Path]:
    """The folders of all but the newest finished upgrades, and of those that were killed before they noted anything; and those of their packages."""
    finished = [one.folder for one in journals(state_dir, prefix) if one.outcome]
    empty = [path for path in (state_dir / UPGRADES).iterdir() if path.is_dir() and not (path / NAME).exists()]
    return [path for folder in [*finished[:-KEPT], *empty] for path in (folder, packages_dir(folder, prefix))]


@contextmanager
def alone(state_dir: Path) -> Iterator[int]:
    """One upgrade at a time on this host. The lock's descriptor is for the programs that it starts: if it is killed, they still hold the lock."""
    path = own_dir(state_dir, UPGRADES) / LOCK
    try:
        with locked_file(path, wait=False) as lock:
            lock.truncate(0)
            lock.write(process_name().encode())
            lock.flush()
            yield lock.fileno()
    except BlockingIOError as error:
        raise InvalidInput(_who_runs(path)) from error


def _who_runs(lock: Path) -> str:
    if died_here(read_own(lock).decode("utf-8", "replace")):
        return (
            "An earlier hmem upgrade was killed, but a program that it had started (such as pip or scripts/setup) still runs. Wait until that ends, "
            "then run this one again: it goes on where the earlier one was."
        )
    return "Another hmem upgrade is running on this host. Wait until it ends, then run this one again."
