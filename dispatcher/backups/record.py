"""What this host knows of its backups without asking them: a small file, which `hmem doctor` and `hmem forget` read.

HMEM_STATE_DIR/backups/known.json    {"format": 1, "repositories": {place: {place, backed_up_at, verified_at, verified, oldest_at, snapshots, lacks}}}
…/backups/lock                       held while a backup is made, tried out or restored
…/backups/staging/, trial/           what is being backed up, and what is being tried out; left by a kill, removed by the next command
…/backups/cache/                     restic's, encrypted
…/backups/restoring.json             which snapshot is being restored
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from shared.config.ownership import OURS
from shared.delivery.copies.restic import Repository, Snapshot
from shared.errors import BackupFailed
from shared.system.files import PrivateDir, locked_file, own_root, read_own, write_atomic
from shared.system.formats import claim

FOLDER = "backups"
KNOWN, LOCK, STAGING, TRIAL, CACHE, RESTORING = "known.json", "lock", "staging", "trial", "cache", "restoring.json"
#: Of hmem forget, in HMEM_STATE_DIR.
RECEIPTS = "receipts"
FORMAT = 1
#: After how long a backup is tried out again by the timer, and after how long hmem doctor says that there is none. Seconds.
VERIFY_SECONDS, OLD_SECONDS = 7 * 86_400.0, 3 * 86_400.0


@dataclass(frozen=True)
class KnownRepository:
    """Times in POSIX seconds; None for never. `verified`: whether the last trial found the backup good. `oldest_at`: of its oldest snapshot."""

    place: str
    backed_up_at: float | None = None
    verified_at: float | None = None
    verified: bool = False
    oldest_at: float | None = None
    snapshots: int = 0
    lacks: list[str] = field(default_factory=list)


def known_repositories(state_dir: Path) -> dict[str, KnownRepository]:
    """By their places, without passwords; none if the file is not there. One that is damaged is as if it were not."""
    try:
        found: dict[str, Any] = orjson.loads(read_own(state_dir / FOLDER / KNOWN))["repositories"]
        return {name: KnownRepository(**one) for name, one in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def note(state_dir: Path, place: str, snapshots: list[Snapshot], **changes: Any) -> None:
    """Record what is new of a repository. The caller holds the lock."""
    known = known_repositories(state_dir)
    one = known.get(place) or KnownRepository(place)
    oldest = min((snapshot.at for snapshot in snapshots), default=None)
    known[place] = replace(one, oldest_at=oldest, snapshots=len(snapshots), **changes)
    record = {"format": FORMAT, "repositories": {name: asdict(found) for name, found in known.items()}}
    write_atomic(state_dir / FOLDER / KNOWN, orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")


def still_holding(state_dir: Path, gone_at: float) -> list[str]:
    """Sentences that name the repositories with snapshots from before that time, for the receipt of a forgetting."""
    return [
        f"snapshots in {one.place} from before this forgetting may still hold it; make a new backup and remove those "
        f"(with nights on another host hmem-night backup TO there, then hmem backup TO --forget-older), then run hmem forget --resume"
        for one in known_repositories(state_dir).values()
        if one.oldest_at is not None and one.oldest_at < gone_at
    ]


@contextmanager
def alone(state_dir: Path) -> Iterator[Path]:
    """The folder of backups, made if it is not there. BackupFailed if another backup is being made, tried out or restored."""
    root = own_root(state_dir, OURS["hmem_state_dir"])
    claim(root, "hmem_state_dir")
    folder = own_root(root / FOLDER, (STAGING, TRIAL))
    try:
        with locked_file(folder / LOCK, wait=False):
            yield folder
    except BlockingIOError as error:
        raise BackupFailed(
            "Another backup is being made, tried out or restored on this host. Wait until it ends."
        ) from error


@contextmanager
def private(folder: Path, name: str) -> Iterator[PrivateDir]:
    """An empty directory for this command. What killed ones have left is removed now, unless their restic still reads it."""
    made = PrivateDir(folder / name)
    try:
        yield made
    finally:
        made.remove()


def open_repository(to: str, password: bytes, state_dir: Path) -> Repository:
    return Repository(to, password, state_dir / FOLDER / CACHE)
