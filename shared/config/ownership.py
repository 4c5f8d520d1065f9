"""Which directories are ours, and when one must not be used: it is a link, belongs to another user, or is writable by others.

The program empties, renames and trusts these directories by name. If one were a link, the program would empty the link's target, and any
user with write access could put such a link there. HMEM_MEMORY_DIR, HMEM_STATE_DIR and HMEM_NIGHT_DIR themselves may be links, since
their owner sets them; the same rule applies to their targets.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

from shared.errors import SettingsError, StorageError

#: Where a release is until it is verified, in HMEM_MEMORY_DIR: a transfer can write to the first and not to the second.
INCOMING, VERIFYING = "incoming", "verifying"
#: Setting → the directories that the program creates in that one, parents first.
OURS: dict[str, tuple[str, ...]] = {
    "hmem_memory_dir": (INCOMING, VERIFYING, "releases"),
    "hmem_state_dir": (
        "chats",
        "prompts",
        "views",
        "opening",
        "forgetting",
        "receipts",
        "media-sessions",
        "made-files",
    ),
    "hmem_night_dir": (
        "archive",
        "archive/erasing",
        "archive/media",
        "nights",
        "last",
        "imports",
    ),
}
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def trusted_owners(root: Path) -> frozenset[int]:
    """The uids whose directories this process may use below `root`: its user's and root's; root itself acts for the owner of `root`."""
    own = os.geteuid()
    return frozenset({0, own} if own else {0, root.stat().st_uid})


def unsafe(path: Path, trusted: Collection[int], *, follow: bool = False) -> str | None:
    """Why a directory must not be used and what to do about it; None if it may be used, or does not exist.

    `trusted`: the uids that may own it. `follow`: it may be reached by links (a directory that a setting names).
    """
    try:
        found = path.stat() if follow else path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        why = f"{path} is a link to {path.readlink()}, so the program would write to its target and empty it"
        return f"{why}. Remove the link (rm {path}), and mount the directory there instead."
    if not stat.S_ISDIR(found.st_mode):
        return (
            f"{path} is not a directory, so the program cannot use it. Move it away; the program creates the directory."
        )
    if found.st_uid not in trusted:
        why = f"{path} belongs to {user_name(found.st_uid)}, who could change its contents, and this program runs as {user_name(os.geteuid())}"
        return f"{why}. Run the program as that user, or change the owner (sudo chown -R USER {path})."
    if found.st_mode & _OTHERS_MAY_WRITE:
        why = f"{path} is writable by users other than its owner (mode {stat.S_IMODE(found.st_mode):04o}), who could put links into it"
        return f"{why}. Check its contents, then remove that permission (chmod go-w {path})."
    return None


def refuse_unsafe(path: Path, trusted: Collection[int], *, follow: bool = False) -> None:
    """StorageError if a directory must not be used (see `unsafe`)."""
    if why := unsafe(path, trusted, follow=follow):
        raise StorageError(why)


def refuse_changeable(what: str, found: os.stat_result) -> None:
    """SettingsError for an open settings file that is writable by others: settings decide which commands run, and where."""
    if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS_MAY_WRITE:
        raise SettingsError(
            f"{what} is writable by users other than its owner (mode {stat.S_IMODE(found.st_mode):04o}), who could choose the commands that run "
            "here. Check its contents, then remove that permission (chmod go-w)."
        )


def user_name(uid: int) -> str:
    """The name of a user, or `uid N` if there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
