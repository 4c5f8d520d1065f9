"""What an upgrade has done so far: `<HMEM_STATE_DIR>/upgrades/<time>/upgrade.json`, written before and after each step, so that it survives a kill.

Another version of the program may read it: the one that was installed meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import orjson

from dispatcher.memory.store.kept import UPGRADES
from shared.errors import FormatNewer, InvalidInput, StorageError
from shared.system.files import locked_file, own_dir, read_own, remove_tree, write_atomic

FORMAT, NAME, LOCK = 1, "upgrade.json", "lock"
#: Finished upgrades that are kept, the newest: one to go back to, and one more.
KEPT = 2

Outcome = Literal["", "done", "back"]


@dataclass
class UpgradeJournal:
    """`step`: the next one to do; `back`: the way is back; `outcome`: "" until it is finished. Formats: place → number before it began."""

    folder: Path
    from_version: str
    target: str | None
    commit: str | None = None
    wheel: str | None = None
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
        record = {name: value for name, value in asdict(self).items() if name != "folder"}
        write_atomic(self.folder / NAME, orjson.dumps({"format": FORMAT, **record}, option=orjson.OPT_INDENT_2) + b"\n")

    def next(self, step: str) -> None:
        """The step before this one is done, durably."""
        self.step = step
        self.write()

    def finish(self, outcome: Outcome) -> None:
        self.outcome, self.finished_at, self.step = outcome, time.time(), ""
        self.write()

    @property
    def wheel_path(self) -> Path | None:
        return self.folder / self.wheel if self.wheel else None


def read_journal(folder: Path) -> UpgradeJournal | None:
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
        known = {one.name for one in fields(UpgradeJournal)}
        return UpgradeJournal(
            folder, **{name: value for name, value in record.items() if name in known and name != "folder"}
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{path} cannot be read ({error!r}), so it is unknown how far that upgrade came. Look at the folder, move it away, then run hmem upgrade."
        ) from error


def journals(state_dir: Path) -> list[UpgradeJournal]:
    """Oldest first."""
    base = state_dir / UPGRADES
    folders = sorted(path for path in base.iterdir() if path.is_dir()) if base.is_dir() else []
    return [found for folder in folders if (found := read_journal(folder))]


def unfinished(state_dir: Path) -> UpgradeJournal | None:
    """The newest that has not come to its end."""
    return next((one for one in reversed(journals(state_dir)) if not one.outcome), None)


def new_folder(state_dir: Path) -> Path:
    name = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    return own_dir(state_dir, UPGRADES, name)


def prune(state_dir: Path) -> None:
    """Remove the folders of all but the newest finished upgrades, and of those that were killed before they noted anything."""
    base = state_dir / UPGRADES
    finished = [one.folder for one in journals(state_dir) if one.outcome]
    empty = [path for path in base.iterdir() if path.is_dir() and not (path / NAME).exists()]
    for folder in [*finished[:-KEPT], *empty]:
        remove_tree(folder)


@contextmanager
def alone(state_dir: Path) -> Iterator[None]:
    """One upgrade at a time on this host."""
    try:
        with locked_file(own_dir(state_dir, UPGRADES) / LOCK, wait=False):
            yield
    except BlockingIOError as error:
        raise InvalidInput(
            "Another hmem upgrade is running on this host. Wait until it ends, then run this one again."
        ) from error
