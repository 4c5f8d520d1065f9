"""Where an archive is, on either host: copied beside its place, put into it, and marked as moved where it was.

Exactly one host has an archive that nights may use. A marker beside a night's directory (shared/system/archive_folder.py) is the commit point: once
it is there, no night runs in that directory; only then the other host puts the copy into its place.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from dispatcher.installation.layout import account
from shared.errors import InstallationIncomplete
from shared.system.archive_folder import kept_copies, moved_marker
from shared.system.files import fsync_dir, locked_file
from shared.system.keys.owner_key import TRUSTED
from shared.system.privileges import as_owner_of

#: In a directory of nights since its first one (shared/system/formats.py).
_USED = "format.json"
#: What sshd needs of an account's home, which with three users is the night's directory.
_SSH = ".ssh"
#: What stays where it is when the archive moves: also the public half of the owner's key, which `hmem owner-key` writes there.
_OF_THIS_HOST = (_SSH, TRUSTED)
#: What is not copied: the lock, and what belongs to the account of that host.
NOT_COPIED = ("--exclude=/lock", f"--exclude=/{_SSH}")
#: Seconds that a night which runs may still take.
NIGHT_SECONDS = 8 * 3600.0


def arriving(place: Path) -> Path:
    """The copy that is not in its place yet."""
    return place.with_name(f"{place.name}.arriving")


def is_used(place: Path) -> bool:
    return (place / _USED).exists()


def mark_moved(place: Path, to: str) -> None:
    """The commit point. Every account may read it."""
    marker = moved_marker(place)
    temporary = marker.with_name(f".{marker.name}.tmp")
    content = {"to": to, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fchmod(file.fileno(), 0o644)
        os.fsync(file.fileno())
    temporary.replace(marker)
    fsync_dir(marker.parent)


def put_aside(place: Path) -> Path | None:
    """Rename what was moved away, so that nobody takes it for the archive; None if that is done, or `place` is a disk of its own, which keeps its
    name. It is never deleted here."""
    if not is_used(place) or os.path.ismount(place):
        return None
    number = len(kept_copies(place)) + 1
    target = place.with_name(f"{place.name}.kept" + (f"-{number}" if number > 1 else ""))
    found = place.stat()
    place.rename(target)
    if (target / _SSH).is_dir():
        place.mkdir(mode=0o700)
        os.chown(place, found.st_uid, found.st_gid)
        (target / _SSH).rename(place / _SSH)
    fsync_dir(place.parent)
    return target


def put_in_place(place: Path) -> None:
    """The copy becomes the archive: first its name, then the marker is removed, after which nights may use it. Repeatable."""
    copy = arriving(place)
    if copy.is_dir():
        if is_used(place):  # from before it was moved away
            put_aside(place)
        _clear_home(place, copy)
        copy.rename(place)
        fsync_dir(place.parent)
    if not is_used(place):
        raise InstallationIncomplete(
            f"{place} has no archive, although one should have been copied there. Look for {copy} and {place.name}.kept beside it."
        )
    moved_marker(place).unlink(missing_ok=True)
    fsync_dir(place.parent)


def _clear_home(place: Path, copy: Path) -> None:
    """An empty directory, or an account's home with what belongs to this host, gives way; the latter goes along."""
    if not place.exists():
        return
    for name in _OF_THIS_HOST:
        if (place / name).exists() and not (copy / name).is_dir():
            (place / name).rename(copy / name)
    (place / "lock").unlink(missing_ok=True)
    try:
        place.rmdir()
    except OSError as error:
        found = ", ".join(sorted(path.name for path in place.iterdir())) or error.strerror
        raise InstallationIncomplete(
            f"{place} is in the way of the archive and not empty ({found}). Move that away, then run the same command again."
        ) from error


def give(place: Path, owner: str | None) -> None:
    """Everything below it to this account; None is this user."""
    user = account(owner) if owner else None
    if user is None:
        return
    # The directory last: until then nobody else can lay a link into it.
    for path in (*sorted(place.rglob("*"), reverse=True), place):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def size_of(place: Path) -> int:
    """Bytes of all files."""
    return sum(path.lstat().st_size for path in place.rglob("*"))


@contextmanager
def no_night(place: Path, waiting: Callable[[], AbstractContextManager[Callable[[str], None]]]) -> Iterator[None]:
    """Meanwhile no night begins in this directory; waits for one that runs, inside `waiting` (Terminal.busy)."""
    with ExitStack() as held:
        if not _taken(held, place):
            with waiting() as show:
                _wait(held, place, show)
        yield


def _taken(held: ExitStack, place: Path) -> bool:
    """Whether the lock of the nights is ours now."""
    with as_owner_of(place):
        try:
            held.enter_context(locked_file(place / "lock", wait=False))
        except BlockingIOError:
            return False
    return True


def _wait(held: ExitStack, place: Path, show: Callable[[str], None]) -> None:
    end = time.monotonic() + NIGHT_SECONDS
    while not _taken(held, place):
        if time.monotonic() > end:
            raise InstallationIncomplete(
                "A night runs and does not end. Look at hmem-night status, then run the same command again."
            )
        show("")
        time.sleep(1.0)
