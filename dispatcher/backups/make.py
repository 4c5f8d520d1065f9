"""Make a backup: bring together what this host has, as of one moment and without stopping anything, and give it to restic.

The order is what makes it whole (redis_part.py has the first step's own):

    Redis       first: a turn is deleted from there only when it is verified in the archive, which is copied later
    day store   after Redis: a turn that is not listed any more as missing there is in it
    release     before the archive: a release names the segments that it was built from, and they must be in the copy of the archive
    archive     a copy that has more than the release is only ahead of it; the next night catches up
    forgotten   last: what was forgotten until now stays forgotten, wherever else it still is

With nights on another host this one has no archive. It is taken from ARCHIVE_MIRROR if that is a directory here; else the result says so, and
`hmem-night backup` there adds it to the same repository.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from dispatcher.backups.record import OLD_SECONDS, RECEIPTS, STAGING, alone, note, open_repository, private
from dispatcher.backups.redis_part import take_redis
from dispatcher.backups.settings_part import SECRET_FILES, settings_without_secrets, write_settings
from dispatcher.backups.store_part import take_store
from dispatcher.memory.tombstones import NAME as FORGOTTEN
from dispatcher.releases.night_command import archive_is_here
from shared.config.settings import Settings
from shared.config.values import names_a_host
from shared.delivery.copies.restic import ARCHIVE_ONLY, WHOLE, Repository, Snapshot
from shared.delivery.copies.tree import (
    ARCHIVE,
    KEYRING,
    MEMORY,
    NIGHT,
    REDIS,
    SETTINGS,
    STATE,
    take,
    take_archive,
    take_night,
    write_record,
)
from shared.errors import BackupFailed
from shared.release.manifest import MANIFEST, current_release, read_manifest
from shared.release.retention import reading
from shared.system.faults import crash_point
from shared.system.files import make_dir, write_atomic
from shared.system.formats import program_version
from shared.system.keys import copies, sealing

Say = Callable[[str], None]
#: How often a release is looked for again that was replaced and removed before it could be held.
TRIES = 5
NO_ARCHIVE = (
    "the archive, which is on another host (run hmem-night backup there, with the same repository and password, after this one; "
    "or set ARCHIVE_MIRROR to a directory of this host) or belongs to another user (run this as root)"
)

#: Tag → what is needed before backups from before a forgetting are removed, and how to get it.
STAY = {
    WHOLE: (
        "a backup from after the last forgetting",
        "(it ended while this one was made: run hmem backup --forget-older again)",
    ),
    ARCHIVE_ONLY: (
        "a backup of the archive from after the last forgetting",
        "(run hmem-night backup on the night host, then hmem backup --forget-older again)",
    ),
}


@dataclass(frozen=True)
class MadeBackup:
    """`lacks`: what this backup does not have, as the ends of sentences; `left_out`: the secrets that a restore asks for."""

    place: str
    snapshot: Snapshot
    repository_made: bool
    parts: dict[str, Any]
    lacks: list[str]
    left_out: list[str]
    removed: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name != "snapshot"}
        return {**own, "snapshot": self.snapshot.id, "at": self.snapshot.at}


def make_backup(
    settings: Settings, client: Redis, to: str, password: bytes, *, init: bool, keep_daily: int = 0
) -> MadeBackup:
    """BackupFailed; whatever happens, nothing of this installation is changed."""
    begun, state = time.time(), settings.hmem_state_dir
    with alone(state) as folder:
        repository = open_repository(to, password, state)
        made = repository.prepare(make=init)
        as_of = time.time()
        # Known before it is made: the receipt of a forgetting that ends meanwhile has to name it.
        note(state, repository.place, [*repository.snapshots(), Snapshot("", as_of, ())])
        with private(folder, STAGING) as staging:
            parts, lacks, left_out = bring_together(settings, client, staging.path)
            crash_point("backup:staged")
            snapshot, there = repository.backup(staging.path, WHOLE, (staging.descriptor,), as_of)
            crash_point("backup:stored")
        if not parts["archive"] and (of_night := newest_archive(there)):
            lacks = [one for one in lacks if one != NO_ARCHIVE]
            parts["archive_snapshot"] = of_night.id
        note(state, repository.place, there, backed_up_at=snapshot.at, lacks=lacks)
        before, left = len(there), there
        if keep_daily:
            try:
                repository.keep_daily(keep_daily, WHOLE)
            except BackupFailed as error:
                raise BackupFailed(
                    f"The backup {snapshot.short} was made, but no older one was removed. {error}"
                ) from error
            left = repository.snapshots()
            note(state, repository.place, left)
    return MadeBackup(repository.place, snapshot, made, parts, lacks, left_out, before - len(left), time.time() - begun)


def newest_archive(snapshots: list[Snapshot]) -> Snapshot | None:
    """The newest backup that a night host has made of its archive, if it is no older than a backup may be."""
    found = [one for one in snapshots if ARCHIVE_ONLY in one.tags and one.at > time.time() - OLD_SECONDS]
    return found[-1] if found else None


def bring_together(settings: Settings, client: Redis, tree: Path) -> tuple[dict[str, Any], list[str], list[str]]:
    """Fill the staging directory: (counts of each part, what is lacking, the secrets that are left out)."""
    state = settings.hmem_state_dir
    parts: dict[str, Any] = {"redis": take_redis(client, tree / REDIS)}
    crash_point("backup:redis-taken")
    parts["day_store"] = take_store(settings, tree / STATE)
    parts["release"] = _take_release(settings.hmem_memory_dir, tree / MEMORY)
    crash_point("backup:release-taken")
    parts["archive"] = _take_archive(settings, tree / NIGHT)
    if sealing.is_on():  # after what it opens
        write_atomic(tree / KEYRING, copies.keyring(sealing.keys())[0])
    parts["forgotten"] = take(state, [FORGOTTEN], make_dir(tree / STATE), owner=state)
    receipts = state / RECEIPTS
    names = sorted(path.name for path in receipts.glob("[!.]*.json")) if receipts.is_dir() else []
    parts["receipts"] = take(receipts, names, make_dir(tree / STATE / RECEIPTS), owner=state)
    values, left_out = settings_without_secrets(settings)
    write_settings(tree / SETTINGS, values)
    parts["settings"] = len(values)
    left_out = [*left_out, *SECRET_FILES]
    lacks = [] if parts["archive"] else [NO_ARCHIVE]
    if parts["release"] is None:
        lacks.append("a release, since no night has made one yet")
    write_record(
        tree,
        {
            "program": program_version(), "host": socket.gethostname(), "made_at": time.time(), "parts": parts, "lacks": lacks,
            "left_out": left_out,
        },
    )  # fmt: skip
    return parts, lacks, left_out


def _take_release(memory_dir: Path, into: Path) -> int | None:
    """The current release, whole: its run, or None if there is none. It is held meanwhile, so that no night removes it."""
    for attempt in range(TRIES):
        release = current_release(memory_dir)
        if release is None:
            return None
        with reading(release):
            try:
                manifest = read_manifest(release)
                target = into / "releases" / str(manifest.run)
                take(release, [*manifest.files, MANIFEST], target, owner=memory_dir, required=True, link=True)
            except OSError:
                if attempt + 1 < TRIES and current_release(memory_dir) != release:
                    continue  # replaced and removed before it was held
                raise
            return manifest.run
    return None


def _take_archive(settings: Settings, into: Path) -> dict[str, int] | None:
    if archive_is_here(settings):
        return take_night(settings.hmem_night_dir, into)
    mirror = settings.archive_mirror
    if mirror and not names_a_host(mirror) and Path(mirror).expanduser().is_dir():
        place = Path(mirror).expanduser()
        return take_archive(place, into / ARCHIVE, owner=place)
    return None


def forget_older(
    settings: Settings, repository: Repository, before: float, *, archive: bool
) -> tuple[list[Snapshot], list[str]]:
    """Remove the snapshots from before that time, and what only they have: (those; why none was removed, as sentences).

    None is removed while a restore would need one of them. `archive`: whether the backup that was just made has the archive, so that none of a
    night host is needed. One from before the forgetting does not go with a release from after it: what was erased is in other segments.
    """
    there = repository.snapshots()
    old = [one for one in there if one.at < before]
    newer = {tag for one in there if one not in old for tag in one.tags} | ({ARCHIVE_ONLY} if archive else set())
    if missing := [tag for tag in STAY if tag not in newer and any(tag in one.tags for one in old)]:
        note(settings.hmem_state_dir, repository.place, there, lacks=[STAY[tag][0] for tag in missing])
        return [], [f"no older backup was removed, since there is not yet {' '.join(STAY[tag])}" for tag in missing]
    repository.remove(old)
    note(settings.hmem_state_dir, repository.place, repository.snapshots())
    return old, []
