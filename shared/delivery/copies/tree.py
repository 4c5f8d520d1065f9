"""What is brought together for a snapshot: a directory that is itself laid out like an installation, so that it can be opened where it lies.

    backup.json              what is in it and what is not
    redis.jsonl              today's keys (dispatcher/backups/redis_part.py)
    settings.toml            settings, without secrets
    keyring.json             the keyring, if this host encrypts; only the owner's key opens it
    state/                   day-store.sqlite, forgotten.jsonl, receipts/
    memory/releases/<run>/   the current release
    night/archive/           segments, texts, media
    night/                   owner.pub, erased.json, servers.json, imports/

Files are taken as bytes and not looked into, so one that is encrypted stays so. It never waits for a night: every file there is written under
another name and renamed, and stays what it was if a newer one takes its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson

from shared.errors import BackupDamaged, FormatNewer, StorageError
from shared.system.archive_folder import archive_files
from shared.system.files import make_dir, write_atomic
from shared.system.privileges import as_owner_of

FORMAT = 1
RECORD, REDIS, SETTINGS, KEYRING = "backup.json", "redis.jsonl", "settings.toml", "keyring.json"
#: In a snapshot of a night host alone, beside the archive.
NIGHT_RECORD = "archive-backup.json"
STATE, MEMORY, NIGHT = "state", "memory", "night"
ARCHIVE = "archive"
#: Of a night's directory, beside the archive. The rest is derived and made anew.
NIGHT_FILES = ("owner.pub", "erased.json", "servers.json")
IMPORTS = "imports"
#: Room that is left on the disk after copying. Bytes.
SPARE_BYTES = 64 << 20


def take_night(night_dir: Path, into: Path) -> dict[str, int]:
    """Copy the archive, and what of a night's directory cannot be made anew, into `into`, as the directory's owner reads it; counts.

    Imports first: a night moves their turns from there to the archive, so that a turn is in one of both.
    """
    imports = _imports(night_dir)
    taken = take(night_dir, imports, into, owner=night_dir)
    take(night_dir, list(NIGHT_FILES), into, owner=night_dir)
    return {"imports": taken, **take_archive(night_dir / ARCHIVE, into / ARCHIVE, owner=night_dir)}


def take_archive(archive_dir: Path, into: Path, owner: Path) -> dict[str, int]:
    """The same of an archive, or of its mirror, read by the user who owns the directory `owner`."""
    make_dir(into)
    with as_owner_of(owner):
        names = [name for _, name in archive_files(archive_dir)]
        media = list(_media(archive_dir))
        size = sum((archive_dir / name).lstat().st_size for name in names)
    if (free := shutil.disk_usage(into).free) < size + SPARE_BYTES:
        raise StorageError(
            f"{into} has {free:,} bytes left, but a copy of the archive takes {size:,} while it is backed up. Make room there; nothing was changed."
        )
    segments = take(archive_dir, names, into, owner=owner, required=True)
    return {"segments": segments, "media": take(archive_dir, media, into, owner=owner)}


def _imports(night_dir: Path) -> list[str]:
    with as_owner_of(night_dir), suppress(FileNotFoundError, NotADirectoryError):
        paths = sorted((night_dir / IMPORTS).iterdir())
        return [f"{IMPORTS}/{path.name}" for path in paths if path.is_file() and not path.name.startswith(".")]
    return []


def _media(archive_dir: Path) -> Iterator[str]:
    """Files of messages: archive/media/<chat>/<file>, not those that are still being written."""
    base = archive_dir / "media"
    folders = sorted(path for path in base.iterdir() if path.name != "arriving") if base.is_dir() else []
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink():
            yield from (f"media/{folder.name}/{path.name}" for path in sorted(folder.iterdir()) if path.is_file())


def take(base: Path, names: list[str], into: Path, *, owner: Path, required: bool = False, link: bool = False) -> int:
    """Copy these files, with their times; how many. One that is gone meanwhile is left out, unless it is `required`.

    `owner`: a directory whose owner may read them. `link`: share the file instead where that can be done: for files whose inode nobody looks
    at. (The archive's catalog does.)
    """
    count = 0
    for name in names:
        target = into / name
        make_dir(target.parent)
        try:
            if not (link and _linked(base / name, target)):
                _copy(base / name, target, owner)
            count += 1
        except FileNotFoundError:
            if required:
                raise
    return count


def _linked(source: Path, target: Path) -> bool:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system, another user's file, or no links here
        return False
    return True


def _copy(path: Path, target: Path, owner: Path) -> None:
    with as_owner_of(owner):
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        copy_open(source, target)
    finally:
        os.close(source)


def copy_open(source: int, target: Path) -> None:
    """Write what an open file holds to a new one; without a byte being copied where the file system can share blocks."""
    found, made = os.fstat(source), os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        left = found.st_size
        try:
            while left and (moved := os.copy_file_range(source, made, left)):
                left -= moved
        except OSError:  # between two file systems, or not known here
            os.lseek(source, found.st_size - left, os.SEEK_SET)
            os.lseek(made, found.st_size - left, os.SEEK_SET)
            while block := os.read(source, 1 << 20):
                os.write(made, block)
        os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(made)


def write_record(tree: Path, record: dict[str, object], name: str = RECORD) -> None:
    write_atomic(tree / name, orjson.dumps({"format": FORMAT, **record}, option=orjson.OPT_INDENT_2) + b"\n")


def read_record(tree: Path) -> dict[str, object]:
    """What is in a restored snapshot. BackupDamaged if it is none of ours, FormatNewer if a newer program made it."""
    try:
        record: dict[str, object] = orjson.loads((tree / RECORD).read_bytes())
        number = record["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupDamaged(
            f"The snapshot has no readable {RECORD} ({error!r}), so it is no backup of hmem. Choose another one."
        ) from error
    if not isinstance(number, int) or number > FORMAT:
        raise FormatNewer(
            f"The snapshot has format {number}, which a newer hcli-memory made; this program reads formats up to {FORMAT}. Install that version here."
        )
    return record
