"""Which directories are ours, and when one must not be used: it is a link, somebody else's, or others may write there.

The program empties, renames and trusts these directories by their names. A link in the place of one would make it empty what the link leads
to, and who may write into one could put such a link there. HMEM_MEMORY_DIR, HMEM_STATE_DIR and HMEM_NIGHT_DIR themselves may be links,
since their owner sets them; what they lead to is held to the same rule.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

from shared.errors import SettingsError, StorageError

#: Where a release stands until it is verified, in HMEM_MEMORY_DIR: the transfer's key reaches the first and not the second.
INCOMING, VERIFYING = "incoming", "verifying"
#: Setting → the directories that the program makes in that one, each after those that it is in.
OURS: dict[str, tuple[str, ...]] = {
    "hmem_memory_dir": (INCOMING, VERIFYING, "releases"),
    "hmem_state_dir": ("chats", "prompts", "views", "opening", "forgetting", "receipts"),
    "hmem_night_dir": ("archive", "archive/erasing", "archive/damaged", "nights", "last", "imports"),
}
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def trusted_owners(root: Path) -> frozenset[int]:
    """Whose directories this process may use below `root`: its user's and root's; root itself acts for whoever owns `root`."""
    own = os.geteuid()
    return frozenset({0, own} if own else {0, root.stat().st_uid})


def unsafe(path: Path, trusted: Collection[int], *, follow: bool = False) -> str | None:
    """Why a directory must not be used and what to do about it; None if it may, or is not there.

    `trusted`: the uids that may own it. `follow`: it may be reached by links (a directory that a setting names).
    """
    try:
        found = path.stat() if follow else path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        why = f"{path} is a link to {path.readlink()}, so the program would write to and empty what it leads to"
        return f"{why}. Remove the link (rm {path}), and mount what should lie there."
    if not stat.S_ISDIR(found.st_mode):
        return f"{path} is no directory, so the program cannot use it. Move it away; the program makes its own."
    if found.st_uid not in trusted:
        why = f"{path} belongs to {user_name(found.st_uid)}, who could change what is in it, and this runs as {user_name(os.geteuid())}"
        return f"{why}. Run it as that user, or give the directory away (sudo chown -R USER {path})."
    if found.st_mode & _OTHERS_MAY_WRITE:
        why = f"{path} may be written by others than its owner (mode {stat.S_IMODE(found.st_mode):04o}), who could put links into it"
        return f"{why}. Look at what is in it, then take that right away (chmod go-w {path})."
    return None


def refuse_unsafe(path: Path, trusted: Collection[int], *, follow: bool = False) -> None:
    """StorageError if a directory must not be used (see `unsafe`)."""
    if why := unsafe(path, trusted, follow=follow):
        raise StorageError(why)


def refuse_changeable(what: str, found: os.stat_result) -> None:
    """SettingsError for an open file of settings in which others than its owner may write: they say what is run, and where."""
    if stat.S_ISREG(found.st_mode) and found.st_mode & _OTHERS_MAY_WRITE:
        raise SettingsError(
            f"{what} may be written by others than its owner (mode {stat.S_IMODE(found.st_mode):04o}), who could name the commands that run here. "
            "Look at what is in it, then take that right away (chmod go-w)."
        )


def user_name(uid: int) -> str:
    """The name of a user, or its number where nobody has that name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
