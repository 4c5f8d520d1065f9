"""Bring a backup back to this host: everything is fetched and checked first, then put in its place, in an order in which a kill does no harm.

    checked       the archive, the release, that they belong together, the day store (trial.py); nothing of this host is changed before
    forgotten     tombstones are added to those that are here, so that nothing forgotten is recalled
    night         archive and what belongs to it: files that are missing; one that is here and differs is another history, and refused
    day store     in one transaction
    release       verified once more where it will be served, then `current` is switched; one that is newer here stays
    Redis         keys that are missing, last: a dispatcher that runs finds its memory before its messages

`restoring.json` says from the first change on which snapshot is being restored: killed at any moment, the same command goes on, without --yes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson
from redis import Redis

from dispatcher.backups.record import RECEIPTS, RESTORING, TRIAL, alone, open_repository, private
from dispatcher.backups.redis_part import put_redis_back
from dispatcher.backups.settings_part import with_own_places, write_settings
from dispatcher.backups.store_part import is_used, put_store_back
from dispatcher.backups.trial import bring_back, chosen, looks, restored_release
from dispatcher.memory.store.database import FILE_NAME
from dispatcher.memory.tombstones import NAME as FORGOTTEN
from dispatcher.memory.tombstones import Forgotten
from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.config.sources import settings_file, user_settings_file
from shared.delivery.copies.restic import WHOLE, Snapshot
from shared.delivery.copies.tree import (
    ARCHIVE,
    IMPORTS,
    KEYRING,
    NIGHT,
    NIGHT_FILES,
    REDIS,
    SETTINGS,
    STATE,
    read_record,
)
from shared.errors import BackupFailed, InvalidInput
from shared.release.manifest import MANIFEST, RELEASES, Manifest, current_release, read_manifest, release_dir, verify
from shared.release.objects import Objects
from shared.release.retention import release_runs
from shared.system.archive_folder import archive_files
from shared.system.faults import crash_point
from shared.system.files import (
    Modes,
    atomic_writer,
    fresh_dir,
    fsync_tree,
    locked_dir,
    make_dir,
    modes_of,
    own_dir,
    own_root,
    read_own,
    sha256_file,
    switch_link,
    write_atomic,
)
from shared.system.formats import claim
from shared.system.keys import copies, sealing
from shared.system.privileges import as_owner_of
from shared.turns.records import Tombstone
from shared.wire import keys

RESTORED_SETTINGS = "settings-of-backup.toml"
_BLOCK = 1 << 20


@dataclass
class Restored:
    """`to_do`: what the owner has to do next, in this order; `to_set`: settings that named places of the backup's host."""

    place: str
    snapshot: Snapshot
    parts: dict[str, Any] = field(default_factory=dict)
    lacks: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    to_set: list[str] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "snapshot": self.snapshot.id, "at": self.snapshot.at}


@dataclass(frozen=True)
class BegunRestore:
    """Of a restore. `keeps_store`: the day store of this host stays, since that of the backup would bring back what was forgotten here since. That is
    decided once: a restore that was killed has filled the store itself."""

    snapshot: str
    keeps_store: bool


def restore_backup(
    settings: Settings,
    client: Redis,
    given: str,
    password: bytes,
    forgotten_at: float,
    *,
    snapshot: str | None = None,
    yes: bool = False,
) -> Restored:
    """`forgotten_at`: when something was last forgotten on this host, POSIX seconds. BackupFailed, BackupDamaged or InvalidInput before anything is
    changed. No dispatcher may run."""
    begun, state = time.time(), settings.hmem_state_dir
    with alone(state) as folder:
        repository = open_repository(given, password, state)
        repository.prepare(make=False)
        earlier = _begun(folder)
        there = {one.id for one in repository.snapshots(WHOLE)}
        wanted = chosen(repository, snapshot or (earlier.snapshot if earlier and earlier.snapshot in there else None))
        goes_on = earlier if earlier and earlier.snapshot == wanted.id else None
        if not (yes or goes_on):
            refuse_used(settings, client)
        with private(folder, TRIAL) as scratch:
            tree = make_dir(scratch.path / "tree")
            lacks = bring_back(repository, wanted, tree)
            record = read_record(tree)
            _put_keyring_back(settings, tree)
            for look in looks(tree, scratch.path, record).values():
                look()
            result = Restored(repository.place, wanted, lacks=lacks)
            result.left_out = [str(one) for one in cast(list[str], record.get("left_out", []))]
            doing = goes_on or BegunRestore(wanted.id, forgotten_at >= wanted.at and is_used(settings))
            write_atomic(folder / RESTORING, orjson.dumps(doing))
            crash_point("restore:begun")
            RestoreRun(settings, client, tree, result, forgotten_at, keeps_store=doing.keeps_store).carry_out()
        (folder / RESTORING).unlink()
    result.seconds = time.time() - begun
    return result


def _put_keyring_back(settings: Settings, tree: Path) -> None:
    """Without it nothing of an encrypted backup can be checked. Keys that are here stay. The owner's own key is in no backup."""
    path = tree / KEYRING
    if not path.exists():
        return
    if settings.encrypt_key_file is None:
        raise BackupFailed(
            "This backup is encrypted with your encryption key, which is in no backup. Put your copy of it back (hmem key restore), set "
            "ENCRYPT_KEY_FILE, and try again. Nothing was changed."
        )
    with as_owner_of(settings.encrypt_key_file.parent):
        copies.restore_keyring(settings.encrypt_key_file, path.read_bytes(), "the keyring of this backup")
    sealing.configure(settings, "day")


def _begun(folder: Path) -> BegunRestore | None:
    """What a killed restore was doing."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        record = orjson.loads(read_own(folder / RESTORING))
        return BegunRestore(str(record["snapshot"]), bool(record["keeps_store"]))
    return None


def refuse_used(settings: Settings, client: Redis) -> None:
    """InvalidInput if there is something already where the backup would go."""
    used = []
    with as_owner_of(settings.hmem_night_dir):
        if archive_files(settings.hmem_night_dir / ARCHIVE):
            used.append(f"an archive in {settings.hmem_night_dir}")
    if release_runs(settings.hmem_memory_dir):
        used.append(f"releases in {settings.hmem_memory_dir}")
    if is_used(settings):
        used.append("a day store with rows")
    if next(client.scan_iter(match=f"{keys.MEMORY_PREFIX}*", count=1000), None) or client.exists(keys.TASKS):
        used.append("turns or messages in Redis")
    if used:
        raise InvalidInput(
            f"This host has {', '.join(used)} already, so nothing was changed. With --yes the day store is replaced by that of the "
            "backup; of the rest, what is here stays, and only what is missing is added."
        )


class RestoreRun:
    """The steps. Each may be repeated."""

    def __init__(
        self,
        settings: Settings,
        client: Redis,
        tree: Path,
        result: Restored,
        forgotten_at: float,
        *,
        keeps_store: bool,
    ) -> None:
        self._settings, self._client, self._tree, self._result = settings, client, tree, result
        self._forgotten_at, self._keeps_store = forgotten_at, keeps_store

    def carry_out(self) -> None:
        steps: tuple[tuple[str, Callable[[], Any]], ...] = (
            ("forgotten", self._forgotten),
            ("archive", self._night),
            ("day_store", self._store),
            ("release", self._release),
            ("receipts", self._receipts),
            ("redis", lambda: put_redis_back(self._client, self._tree / REDIS)),
            ("settings", self._write_settings),
        )
        for name, step in steps:
            self._result.parts[name] = step()
            crash_point(f"restore:{name}")
        self._say_what_to_do()

    def _forgotten(self) -> int:
        state = own_root(self._settings.hmem_state_dir, OURS["hmem_state_dir"])
        path, here = self._tree / STATE / FORGOTTEN, Forgotten(state)
        lines = [line for line in path.read_bytes().splitlines() if line.strip()] if path.exists() else []
        for line in lines:
            here.add(Tombstone.parse(line))
        return len(lines)

    def _night(self) -> dict[str, int] | None:
        tree, night = self._tree / NIGHT, self._settings.hmem_night_dir
        if not (tree / ARCHIVE).is_dir():
            return None
        with as_owner_of(night):
            own_root(night, OURS["hmem_night_dir"])
            claim(night, "hmem_night_dir")
        names = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
        wanted = [name for name in names if name in NIGHT_FILES or name.startswith((f"{ARCHIVE}/", f"{IMPORTS}/"))]
        differing = [name for name in wanted if name not in NIGHT_FILES and self._differs(name)]
        if differing:
            raise BackupFailed(
                f"{night / differing[0]} is here already and is not what the backup has ({len(differing)} such files): two histories. Nothing of the "
                "archive was changed. Move the archive that is not yours away, then try again."
            )
        put = [name for name in wanted if put_file(tree / name, night / name, night)]
        return {"files": len(wanted), "added": len(put)}

    def _differs(self, name: str) -> bool:
        """Whether the file is here with other bytes. One from which something was erased since is not put back."""
        night = self._settings.hmem_night_dir
        with as_owner_of(night):
            if not (night / name).exists():
                return False
            here = sha256_file(night / name)
            with (night / name).open("rb") as handle:
                head = handle.readline(1 << 16)
        there = sha256_file(self._tree / NIGHT / name)
        return here != there and there.encode() not in head

    def _store(self) -> int | None:
        kept = self._tree / STATE / FILE_NAME
        if not kept.exists() or not self._settings.has_day_store or self._keeps_store:
            return None
        return put_store_back(self._settings, kept)

    def _release(self) -> dict[str, Any] | None:
        found = restored_release(self._tree)
        if found is None:
            return None
        memory = self._settings.hmem_memory_dir
        with as_owner_of(memory):
            own_root(memory, OURS["hmem_memory_dir"])
        manifest = read_manifest(found)
        with as_owner_of(memory), locked_dir(memory):
            modes = modes_of(memory)
            claim(memory, "hmem_memory_dir", modes)
            served = current_release(memory)
            newer = served is not None and read_manifest(served).run >= manifest.run
            there = release_dir(memory, manifest.run)
        if not there.exists():
            self._put_release(found, manifest, modes)
        if not newer:
            with as_owner_of(memory), locked_dir(memory):
                verify(there)
                switch_link(memory / "current", f"{RELEASES}/{manifest.run}")
        return {"run": manifest.run, "current": not newer}

    def _put_release(self, found: Path, manifest: Manifest, modes: Modes) -> None:
        """As a night's: its files get their name together, once they are verified and durable."""
        memory = self._settings.hmem_memory_dir
        with as_owner_of(memory):
            target = fresh_dir(own_dir(memory, "verifying") / str(manifest.run))
            modes.apply_to_dir(own_dir(memory, RELEASES))
        for name in [*manifest.files, MANIFEST]:
            put_file(found / name, target / name, memory, modes)
        crash_point("restore:release-copied")
        with as_owner_of(memory), locked_dir(memory):
            for folder, _, _ in os.walk(target):
                modes.apply_to_dir(Path(folder))
            fsync_tree(target)
            Objects(memory).add(target, manifest)
            target.rename(release_dir(memory, manifest.run))

    def _receipts(self) -> int:
        state = self._settings.hmem_state_dir
        paths = sorted((self._tree / STATE / RECEIPTS).glob("*.json"))
        return sum(put_file(path, state / RECEIPTS / path.name, state) for path in paths)

    def _write_settings(self) -> str:
        """Where the settings are. They become this host's own if it has no settings file; its places are this host's."""
        import tomllib

        values = tomllib.loads((self._tree / SETTINGS).read_text(encoding="utf-8"))
        values, self._result.to_set = with_own_places(values, self._settings)
        target = self._settings.hmem_state_dir / RESTORED_SETTINGS
        own = user_settings_file()
        if settings_file() is None and own is not None:
            with suppress(OSError):
                make_dir(own.parent)
                target = own
        write_settings(target, values)
        return str(target)

    def _say_what_to_do(self) -> None:
        result = self._result
        if self._keeps_store:
            result.to_do.append(
                "the day store of this host stayed, because something was forgotten here after the backup was begun, and the backup's day store "
                "would bring it back. To use that one, move yours away, restore again, then forget again"
            )
        elif result.parts["day_store"] and self._forgotten_at >= result.snapshot.at:
            result.to_do.append(
                "forget again what was forgotten here after the backup was begun (hmem forget, /memory forget): the restored day store may have it"
            )
        where = str(result.parts["settings"])
        if where.endswith(RESTORED_SETTINGS):
            result.to_do.append(f"compare your settings with those of the backup in {where}")
        if result.left_out:
            result.to_do.append(f"set again what no backup has: {', '.join(result.left_out)}")
        if result.to_set:
            result.to_do.append(
                f"set anew, if you want it on this host, what named places of the backup's: {', '.join(result.to_set)}"
            )
        if result.parts["archive"] is None:
            result.to_do.append(
                "restore the archive on the night host: copy it from its mirror, or hmem-night verify --repair"
            )
        result.to_do += ["run hmem doctor", "start the services, then run a night (hmem-night run)"]


def put_file(source: Path, target: Path, owner: Path, modes: Modes | None = None) -> bool:
    """Put a file of ours in a directory of that owner's, whole and durable, unless it is there; whether it was put."""
    with source.open("rb") as read, as_owner_of(owner):
        if target.exists():
            return False
        make_dir(target.parent)
        with _writer(target, modes) as write:
            while block := read.read(_BLOCK):
                write.write(block)
        found = os.fstat(read.fileno())
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
    return True


@contextmanager
def _writer(target: Path, modes: Modes | None) -> Iterator[Any]:
    with atomic_writer(target, modes) if modes else atomic_writer(target) as handle:
        yield handle
