"""A restic repository: the program is run as it is, with the repository in its environment and the password in a pipe, never in its arguments.

restic 0.14 (Debian 12) and newer; a newer one says by its exit code what 0.14 only says in words, so both are understood.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from shared.config.credentials import for_child
from shared.config.settings import setting_names
from shared.delivery.copies.tree import SPARE_BYTES
from shared.errors import BackupFailed
from shared.system.files import make_dir
from shared.system.processes import run_bounded

PROGRAM = "restic"
OLDEST = (0, 14)
#: The longest that one call may take, and one that only asks. Seconds.
WORK_SECONDS, ASK_SECONDS = 86_400.0, 600.0
#: Tags of our snapshots: of a day host, with all that it has; of a night host, with the archive alone.
WHOLE, ARCHIVE_ONLY = "hmem", "hmem-archive"
HOW_TO_INSTALL = "Install it: apt install restic"
#: What a disk that is full says.
NO_ROOM = r"no space left|quota|file too large"
#: What restic says → why, and what to do. The first that is found counts.
_FAULTS = (
    (r"wrong password|no key found", "the password is another one", "Correct BACKUP_PASSWORD_FILE, or give --password-file"),
    (
        r"already locked",
        "it is locked by another restic, or by one that was killed",
        "Wait for it; if none runs, remove the lock (restic unlock, with the same repository and password), then try again",
    ),
    (
        r"permission denied|read-only file system",
        "this user may not write there",
        "Give it to the user who makes the backups (as root: the owner of HMEM_STATE_DIR)",
    ),
    (
        NO_ROOM,
        "there is no room left",
        "Make room there, or keep fewer snapshots (--keep-daily)",
    ),
)  # fmt: skip
_MAKE_ROOM = "Make room on this host, then try again; nothing else was changed."
_MISSING = r"unable to open config file|Is there a repository at|repository does not exist"
_NEW_CODES = {10: "Is there a repository at", 11: "already locked", 12: "wrong password"}


@dataclass(frozen=True)
class Snapshot:
    """`tags` are those of `WHOLE` and `ARCHIVE_ONLY`, among others."""

    id: str
    at: float
    tags: tuple[str, ...]

    @property
    def short(self) -> str:
        return self.id[:8]


class RepositoryMissing(BackupFailed):
    """There is no repository yet."""

    exit_code = BackupFailed.exit_code


class RepositoryLocked(BackupFailed):
    """Another restic works there: nothing is wrong with the backups."""

    exit_code = BackupFailed.exit_code


class DiskFull(BackupFailed):
    """A disk of this host has no room for what is brought back: nothing is wrong with the backups."""

    exit_code = BackupFailed.exit_code


def address_of(to: str) -> str:
    """A repository as restic is told it, whose current directory is another: a directory by its whole path."""
    return to if re.match(r"[a-z0-9]+:", to) else str(Path(to).expanduser().absolute())


def shown_place(to: str) -> str:
    """A repository for people: without a password."""
    return _without_password(address_of(to))


def _without_password(text: str) -> str:
    return re.sub(r"://[^/@\s]*@", "://…@", text)


def refuse_without_restic() -> None:
    """BackupFailed if restic is missing or too old."""
    try:
        said = run_bounded([PROGRAM, "version"], ASK_SECONDS, environment=_environment()).stdout
    except FileNotFoundError as error:
        raise BackupFailed(f"restic, which makes the backups, is not installed. {HOW_TO_INSTALL}.") from error
    found = re.search(r"restic (\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST:
        version = f"{found[1]}.{found[2]}" if found else "of an unknown version"
        raise BackupFailed(
            f"restic {version} is too old: 0.14 or newer is needed. {HOW_TO_INSTALL}, or a newer release of it."
        )


class Repository:
    """`cache`: a directory for restic's copies of the repository's index, which are encrypted as that is."""

    def __init__(self, to: str, password: bytes, cache: Path) -> None:
        self.place, self._to, self._password, self._cache = shown_place(to), address_of(to), password, cache
        self._known: list[Snapshot] | None = None  # each call of restic takes a second, to make passwords hard to guess

    def prepare(self, *, make: bool) -> bool:
        """Open it, or make it if it is not there; whether it was made. RepositoryMissing if it is not to be made."""
        refuse_without_restic()
        try:
            self.snapshots()
        except RepositoryMissing:
            if not make:
                raise
            self._run("init")
            self._known = []
            return True
        return False

    def snapshots(self, tag: str | None = None) -> list[Snapshot]:
        """Ours, the oldest first, as they were when they were asked for after our last change."""
        if self._known is None:
            found: list[dict[str, Any]] = (
                orjson.loads(self._run("snapshots", "--json", "--no-lock", seconds=ASK_SECONDS)) or []
            )
            every = [
                Snapshot(one["id"], datetime.fromisoformat(one["time"]).timestamp(), tuple(one.get("tags") or ()))
                for one in found
            ]
            ours = [one for one in every if {WHOLE, ARCHIVE_ONLY} & {*one.tags}]
            self._known = sorted(ours, key=lambda one: one.at)
        return [one for one in self._known if tag is None or tag in one.tags]

    def backup(self, folder: Path, tag: str, holding: Sequence[int], as_of: float) -> tuple[Snapshot, list[Snapshot]]:
        """A snapshot of all that is in `folder`, and all snapshots that there are then. `holding`: descriptors that stay open as long as restic
        runs, even if we are killed.

        `as_of`: when the first file was read for it, POSIX seconds. That is its time, since what was forgotten later may be in it.

        Files are as in the last snapshot if size and time are: ours never change, and copies of them have other inodes.
        """
        last = [one.id for one in self.snapshots(tag)][-1:]
        parent = [word for one in last for word in ("--parent", one)]
        at = datetime.fromtimestamp(as_of, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")  # restic reads a local time
        words = ("backup", "--quiet", "--json", "--ignore-inode", *parent, "--tag", tag, "--time", at, ".")
        summary = orjson.loads(self._run(*words, folder=folder, holding=holding, zone="UTC").strip().splitlines()[-1])
        self._known = None
        there = self.snapshots()
        return next(one for one in there if one.id.startswith(summary["snapshot_id"])), there

    def restore(self, snapshot: Snapshot, into: Path) -> None:
        """Bring back a snapshot into an empty directory. A file that cannot be read from the repository is an error; DiskFull."""
        words = ("stats", "--json", "--no-lock", "--mode", "restore-size", snapshot.id)
        size, free = int(orjson.loads(self._run(*words))["total_size"]), shutil.disk_usage(into).free
        if free < size + SPARE_BYTES:
            raise DiskFull(
                f"{into} has {free:,} bytes left, but backup {snapshot.short} takes {size:,} there. {_MAKE_ROOM}"
            )
        self._run("restore", "--quiet", snapshot.id, "--target", str(into))

    def check(self) -> None:
        """Read every byte of the repository and compare it with its hash."""
        self._run("check", "--read-data")

    def remove(self, snapshots: Sequence[Snapshot]) -> None:
        """Remove these snapshots, and from the repository what no other one has."""
        if snapshots:
            self._run("forget", "--quiet", "--prune", *(one.id for one in snapshots))
            self._known = None

    def keep_daily(self, days: int, tag: str) -> None:
        """Keep one snapshot of each of so many days, and remove the others."""
        self._run("forget", "--quiet", "--prune", "--tag", tag, "--group-by", "", "--keep-daily", str(days))
        self._known = None

    def _run(
        self,
        *words: str,
        seconds: float = WORK_SECONDS,
        folder: Path | None = None,
        holding: Sequence[int] = (),
        zone: str | None = None,
    ) -> str:
        """What it prints. `zone`: its local time zone, if another than ours."""
        make_dir(self._cache)
        reading, writing = os.pipe()
        try:
            os.write(writing, self._password + b"\n")
            os.close(writing)
            environment = _environment() | {"RESTIC_REPOSITORY": self._to, "RESTIC_CACHE_DIR": str(self._cache)}
            environment |= {"TZ": zone} if zone else {}
            command = [PROGRAM, "--password-file", f"/dev/fd/{reading}", *words]
            done = run_bounded(
                command,
                seconds,
                environment=environment,
                descriptors=(reading, *holding),
                directory=folder,
                umask=0o077,
            )
        except subprocess.TimeoutExpired as error:
            raise BackupFailed(
                f"restic {words[0]} did not end within {seconds / 3600:g} hours. Check the connection to {self.place}."
            ) from error
        except FileNotFoundError as error:
            raise BackupFailed(f"restic, which makes the backups, is not installed. {HOW_TO_INSTALL}.") from error
        finally:
            os.close(reading)
        if done.returncode != 0:
            raise self._failed(words[0], done)
        return done.stdout

    def _failed(self, verb: str, done: subprocess.CompletedProcess[str]) -> BackupFailed:
        said = f"{done.stdout}\n{done.stderr}\n{_NEW_CODES.get(done.returncode, '')}"
        if verb != "init" and re.search(_MISSING, said):
            return RepositoryMissing(
                f"There is no restic repository at {self.place}. Make it with hmem backup --init, or correct TO."
            )
        # These write here what they read there.
        if verb in {"restore", "check"} and re.search(NO_ROOM, said, re.IGNORECASE):
            return DiskFull(
                f"The disk of {self._cache.parent}, where restic {verb} works, has no room left. {_MAKE_ROOM}"
            )
        for pattern, why, remedy in _FAULTS:
            if re.search(pattern, said, re.IGNORECASE):
                kind = RepositoryLocked if "lock" in pattern else BackupFailed
                return kind(f"The backup repository {self.place} cannot be used: {why}. {remedy}.")
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        last = next(
            (line for line in lines if "Fatal" in line or "error" in line.lower()), lines[-1] if lines else "no output"
        )
        why = _without_password(last.removeprefix("Fatal: ")).rstrip(".")[:300]
        return BackupFailed(f"restic {verb} failed at {self.place}: {why}. Remove the cause, then try again.")


def _environment() -> dict[str, str]:
    """What restic gets: what an S3 server needs is there, none of our settings and no other password of restic's is."""
    ours = {*setting_names(), "HMEM_CREDENTIALS", "HMEM_CONFIG"}
    with for_child(only=()) as (environment, _):
        return {
            name: value
            for name, value in environment.items()
            if name.upper() not in ours and not name.startswith(("RESTIC_PASSWORD", "RESTIC_REPOSITORY"))
        }
