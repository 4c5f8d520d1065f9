"""Try a backup out: bring it back into a scratch directory, which is laid out like an installation, and ask of it what is asked of a real one.

repository    every byte is read and compared with its hash (restic check --read-data)
archive       hmem-night verify, as for any archive
release       every file has the hash of its manifest; the trial that each night's release has to pass; the gate's questions
              (shared/delivery/gate.py), which the release in use is asked, too
together      the archive has every segment that the release was built from
day store     PRAGMA integrity_check
Redis         every line is a key with its DUMP
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from dispatcher.backups.make import NO_ARCHIVE
from dispatcher.backups.record import TRIAL, alone, note, open_repository, private
from dispatcher.backups.redis_part import read_records
from dispatcher.memory.store.database import FILE_NAME
from shared.config.credentials import for_child
from shared.config.settings import Settings, setting_names
from shared.delivery import gate
from shared.delivery.copies.restic import ARCHIVE_ONLY, WHOLE, DiskFull, Repository, RepositoryLocked, Snapshot
from shared.delivery.copies.tree import ARCHIVE, MEMORY, NIGHT, REDIS, STATE, read_record
from shared.delivery.receiver import run_trial
from shared.errors import ArchiveDamaged, BackupDamaged, BackupFailed, HmemError, InvalidInput
from shared.release.integrity import check_database
from shared.release.manifest import Manifest, current_release, verify
from shared.release.retention import reading, release_runs
from shared.system.archive_folder import proven_hash
from shared.system.files import make_dir, write_atomic
from shared.system.keys import sealing
from shared.system.processes import last_line, module_command, run_bounded

ARCHIVE_SECONDS = 14_400.0
#: With less left than this a disk is full, and says nothing of what is looked at there.
FULL_BYTES = 1 << 20


@dataclass
class TrialResult:
    """`faults`: why the backup is not good, as sentences; empty if it is. `gate`: the gate's record, {} without a release to compare with."""

    place: str
    snapshot: Snapshot
    checked: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "snapshot": self.snapshot.id, "at": self.snapshot.at, "good": not self.faults}


def try_out(settings: Settings, to: str, password: bytes) -> TrialResult:
    """Of the newest snapshot. What is wrong with the backup is in the result; BackupFailed if it could not be tried."""
    begun, state = time.time(), settings.hmem_state_dir
    with alone(state) as folder:
        repository = open_repository(to, password, state)
        repository.prepare(make=False)
        result = TrialResult(repository.place, chosen(repository, None))
        _collect(result, "repository", lambda: _checked(repository))
        with private(folder, TRIAL) as scratch:
            tree = make_dir(scratch.path / "tree")
            lacks = _collect(result, "restored", lambda: bring_back(repository, result.snapshot, tree))
            if lacks is not None:
                result.checked["restored"], result.lacks = True, lacks
                _examine(settings, tree, scratch.path, result)
            # Whatever went wrong, it may have been that.
            if result.faults and (free := shutil.disk_usage(tree).free) < FULL_BYTES:
                raise DiskFull(
                    f"{tree} has {free:,} bytes left, so the backup could not be tried. Make room there, then try again."
                )
        result.seconds = time.time() - begun
        now, good = time.time(), not result.faults
        with suppress(HmemError):  # a repository that is damaged may not even list its snapshots
            note(state, repository.place, repository.snapshots(), verified_at=now, verified=good)
    return result


def chosen(repository: Repository, wanted: str | None) -> Snapshot:
    """The newest snapshot of a whole installation, or the named one."""
    found = repository.snapshots(WHOLE)
    if wanted is None and found:
        return found[-1]
    if wanted is None:
        raise BackupFailed(f"There is no backup in {repository.place} yet. Make one: hmem backup.")
    named = [one for one in found if one.id.startswith(wanted)]
    if len(named) != 1:
        there = ", ".join(one.short for one in found[-5:]) or "none"
        raise InvalidInput(
            f"--snapshot {wanted}: {repository.place} has {len(named)} such backups. The newest ones: {there}."
        )
    return named[0]


def bring_back(repository: Repository, snapshot: Snapshot, tree: Path) -> list[str]:
    """Fetch a snapshot; if it has no archive, that comes from the newest one that a night host has made. Returns what it lacks."""
    repository.restore(snapshot, tree)
    record: dict[str, Any] = read_record(tree)
    lacks = [str(one) for one in record.get("lacks") or ()]
    if not (tree / NIGHT / ARCHIVE).is_dir() and (of_night := repository.snapshots(ARCHIVE_ONLY)):
        repository.restore(of_night[-1], tree)
        lacks = [one for one in lacks if one != NO_ARCHIVE]
        if of_night[-1].at < snapshot.at:
            lacks.append(
                "turns that a night has archived after the night host's backup and before this one; run hmem-night backup after hmem backup"
            )
    return lacks


def _checked(repository: Repository) -> bool:
    repository.check()
    return True


def _collect(result: TrialResult, name: str, look: Callable[[], Any]) -> Any:
    """What a look finds; an error is one of the backup's faults, and nothing is found."""
    try:
        found = look()
    except (RepositoryLocked, DiskFull):
        raise
    except (HmemError, OSError, ValueError) as error:
        result.faults.append(f"{name}: {str(error).strip()}")
        return None
    result.checked[name] = found
    return found


def _examine(settings: Settings, tree: Path, scratch: Path, result: TrialResult) -> None:
    record = _collect(result, "record", lambda: read_record(tree))
    if not isinstance(record, dict):
        return
    result.checked["record"] = True
    _collect(result, "redis", lambda: sum(1 for _ in read_records(tree / REDIS)))
    for name, look in looks(tree, scratch, record).items():
        _collect(result, name, look)
    if (release := restored_release(tree)) and result.checked.get("release") is not None:
        result.gate = _collect(result, "questions", lambda: _ask(settings, release)) or {}


def looks(tree: Path, scratch: Path, record: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """What has to hold of a snapshot that was brought back, before it is used or called good. Each raises an error of ours, or returns counts."""
    parts, found = record.get("parts", {}), dict[str, Callable[[], Any]]()
    if parts.get("archive") or (tree / NIGHT / ARCHIVE).is_dir():
        found["archive"] = lambda: verify_archive(tree / NIGHT, scratch)
    if parts.get("release") is not None:
        found["release"] = lambda: len(_release(tree).files)
        if (tree / NIGHT / ARCHIVE).is_dir():
            found["together"] = lambda: _together(tree)
    if parts.get("day_store"):
        found["day store"] = lambda: _store(tree / STATE / FILE_NAME)
    return found


def verify_archive(night_dir: Path, scratch: Path) -> dict[str, Any]:
    """As `hmem-night verify` does, with settings of its own: neither this host's archive nor its mirror is looked at."""
    own = scratch / "verify.toml"
    lines = [f'HMEM_NIGHT_DIR = "{night_dir}"\n']
    if sealing.is_on():
        lines.append(f'ENCRYPT_KEY_FILE = "{sealing.keys().key_file}"\n')
    write_atomic(own, "".join(lines).encode())
    with for_child(only=()) as (inherited, _):
        environment = {name: value for name, value in inherited.items() if name.upper() not in setting_names()}
    environment |= {"HMEM_CONFIG": str(own), "HMEM_CREDENTIALS": str(own)}
    done = run_bounded(module_command("nightly", "verify", "--json"), ARCHIVE_SECONDS, environment=environment)
    if done.returncode != 0:
        raise ArchiveDamaged(f"hmem-night verify ended with exit code {done.returncode}: {last_line(done)}")
    counts: dict[str, Any] = orjson.loads(done.stdout)
    return counts


def restored_release(tree: Path) -> Path | None:
    runs = release_runs(tree / MEMORY)
    return tree / MEMORY / "releases" / str(runs[-1]) if runs else None


def _release(tree: Path) -> Manifest:
    release = restored_release(tree)
    if release is None:
        raise BackupDamaged("The release is missing. Choose another snapshot.")
    return verify(release)


def _together(tree: Path) -> int:
    """How many segments the release was built from. A segment from which something was erased since is another file, which names the first."""
    manifest = _release(tree)
    for name, sha256 in manifest.segments.items():
        path = tree / NIGHT / ARCHIVE / name
        if not path.is_file():
            raise BackupDamaged(
                f"The release was built from {name}, which the archive of the backup lacks. Choose another snapshot."
            )
        if proven_hash(path) != sha256 and not _erased_since(path, {sha256, manifest.originals.get(name, sha256)}):
            raise BackupDamaged(
                f"The release was built from another {name} than the archive of the backup has. Choose another snapshot."
            )
    return len(manifest.segments)


def _erased_since(path: Path, before: set[str]) -> bool:
    with path.open("rb") as handle:
        return orjson.loads(handle.readline()).get("original") in before


def _store(path: Path) -> bool:
    if not path.is_file():
        raise BackupDamaged("The day store is missing. Choose another snapshot.")
    check_database(path)
    return True


def _ask(settings: Settings, release: Path) -> dict[str, Any]:
    """The trial of a night's release, and the gate's questions to it and to the one in use."""
    served = current_release(settings.hmem_memory_dir)
    if served is None:
        run_trial(release, None, proven=True)
        return {}
    with reading(served):
        record = run_trial(release, served, accept=True, proven=True)
    same = release.name == served.name
    less = record["lost"] - record["won"]
    if (same and record["refuse"]) or (less >= gate.REFUSE_LEAST and less > gate.REFUSE_SHARE * record["questions"]):
        asked = f"{record['found_now']} of {record['questions']} questions find their answer, {record['found_before']} do in the release in use"
        raise BackupDamaged(f"The release of the backup finds far less: {asked}. Make another backup.")
    if not same:  # chats that are new since then are no fault of the backup
        record["refuse"] = None
    return {**record, "release": int(release.name), "served": int(served.name)}
