"""How a release is switched: `current` is pointed at it in one step. This is the commit point of a night.

What may not follow the current release is refused first: a night that began from another release, that is not newer, or whose archive lacks
something. The switch itself asks once more whether the night still holds the lease and whether the owner has pinned another release.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, cast

from shared.errors import LeaseLost, ReleaseRefused
from shared.release import retention
from shared.release.chats import changed_chats
from shared.release.manifest import (
    CHATS,
    Manifest,
    current_manifest,
    current_release,
    prove_file,
    read_manifest,
    release_dir,
)
from shared.system.files import fsync_dir, switch_link
from shared.text.logs import Logger
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

log = Logger()


def switch(memory_dir: Path, run: int, token: int, client: Redis) -> int | None:
    """Point `current` at the release of this run. The caller holds the lock of the directory.

    Returns None, or the run that the owner has pinned: then nothing is switched.
    ReleaseRefused if the release may not follow the current one, LeaseLost if the night with this token is not the night any more.
    """
    release = release_dir(memory_dir, run)
    refuse_unless_follows(release, memory_dir)
    owner = cast(bytes | None, client.get(keys.NIGHT_OWNER)) or b""
    if owner.split(b" ")[0] != str(token).encode():
        raise LeaseLost(
            "Another night took the lease while this one was suspended, so the release was not switched. Run the night again."
        )
    pin = retention.read_pin(memory_dir)
    if pin is not None and pin.run != run:
        return pin.run
    switch_link(memory_dir / "current", f"releases/{run}")
    return None


def undo_switch(memory_dir: Path, run: int) -> None:
    """Point `current` back at the parent of this run; nothing if the run is not current. The caller holds the lock of the directory."""
    path = current_release(memory_dir)
    current = read_manifest(path) if path else None
    if current is None or current.run != run:
        return
    if current.parent is None:
        (memory_dir / "current").unlink()
        fsync_dir(memory_dir)
    else:
        parent = release_dir(memory_dir, current.parent)
        read_manifest(parent)  # raises if it is damaged: the new release is better than none
        switch_link(memory_dir / "current", f"releases/{current.parent}")


def refuse_unless_follows(release: Path, memory_dir: Path) -> None:
    """ReleaseRefused for a release that would make memory shrink by accident, as its manifest and its counts of each chat show."""
    new, current = read_manifest(release), current_manifest(memory_dir)
    refuse_unless_descendant(new, current)
    if current is not None and current.run != new.run:
        _refuse_shrinking(release, release_dir(memory_dir, current.run), current)


def refuse_unless_descendant(new: Manifest, current: Manifest | None) -> None:
    """ReleaseRefused by the manifests alone. A release may follow itself (a repeated switch)."""
    if current is not None and current.run == new.run:
        return
    if (current.run if current else None) != new.parent:
        raise ReleaseRefused(
            f"The current release is {current.run if current else 'none'}, but this night started from {new.parent or 'none'}. "
            "Another night host has published since. Run the night again; it starts from the current release."
        )
    if current is None:
        return
    if new.run <= current.run:
        raise ReleaseRefused(f"Run {new.run} is not above the current release's {current.run}. Run the night again.")
    for name, sha256 in current.segments.items():
        if new.segments.get(name) != sha256 and not _erased_since(name, new, current):
            raise ReleaseRefused(
                f"The current release was built from {name}, which is missing or different in this night host's archive. "
                "If HMEM_NIGHT_DIR is right, restore the archive from its copy before the next night; nothing was published."
            )
    if lost := set(current.tombstones) - set(new.tombstones):
        raise ReleaseRefused(
            f"The new release would bring back forgotten turns ({len(lost)} tombstones of the current release are missing). "
            "Restore the archive from its copy before the next night; nothing was published."
        )
    now, before = new.turns + new.forgotten, current.turns + current.forgotten
    if now < before:
        raise _shrinks("Memory", before, now)


def _erased_since(name: str, new: Manifest, current: Manifest) -> bool:
    """Whether a segment differs because something was permanently erased from it; shrinking is checked by chat."""
    original = new.originals.get(name)
    return original is not None and original in (current.segments[name], current.originals.get(name))


def _refuse_shrinking(release: Path, served: Path, current: Manifest) -> None:
    """For each chat, recallable turns plus turns covered by a tombstone must never become fewer."""
    try:
        prove_file(served, current, CHATS)
        changed = changed_chats(release, served)
    except (ReleaseRefused, OSError, sqlite3.Error) as error:
        # A damaged current release must not stop the one that replaces it: the segments, tombstones and sums were compared.
        log.warning("the chats of the current release cannot be compared one by one", reason=str(error))
        return
    for _, *both in changed:
        turns, earlier = ((one["turns"] or 0) + (one["forgotten"] or 0) for one in both)
        if turns < earlier:
            raise _shrinks("A chat", earlier, turns)


def _shrinks(what: str, before: int, now: int) -> ReleaseRefused:
    return ReleaseRefused(
        f"{what} would shrink from {before} to {now} turns although nothing was forgotten. "
        "Verify the archive (hmem-night verify); nothing was published."
    )
