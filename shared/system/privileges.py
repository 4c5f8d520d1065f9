"""What a process may do and show: /proc closed to others of the same user; root's commands as the user whose files they touch."""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE, _PR_SET_KEEPCAPS = 4, 8
_CAPABILITY_VERSION_3 = 0x20080522
#: CAP_SETGID and CAP_SETUID: `hmem forget` reaches the night's files, and starts a night, as the night's user. No right over files that
#: this user has not: in a directory of a service that service could lay a link, and root's command would follow it.
_KEPT = 1 << 6 | 1 << 7
_EFFECTIVE, _PERMITTED = 0, 1
#: What Debian gives to users without a home.
NO_HOME = "/nonexistent"


class _Kept:
    """What a process that gave up root has of it: whether it may still become others, and who owns the directories where it will (path →
    uid, gid), since the way to them may be closed to its new user."""

    rights = False
    owners: dict[Path, tuple[int, int]] = {}  # noqa: RUF012 - there is one process


def close_to_others() -> None:
    """No other process of this user may read our memory, environment or descriptors in /proc, or trace us. There is no core dump then, either."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


def is_to_change_user(directory: Path) -> bool:
    """Whether `act_as_owner_of` would make root another user."""
    try:
        return os.geteuid() == 0 and directory.stat().st_uid != 0
    except OSError:  # not there yet, so it is nobody's
        return False


def act_as_owner_of(directory: Path, *, spanning: Collection[Path] = ()) -> None:
    """Root becomes the user that owns the directory, so that no file of root's is left there. Nothing happens to others, and in root's own.

    `spanning`: directories of other users in which the command works as well. It keeps the right to become their owners (`as_owner_of`).
    """
    if not is_to_change_user(directory):
        return
    found = directory.stat()
    user = _user(found.st_uid)
    library = ctypes.CDLL(None, use_errno=True)
    if spanning:
        _Kept.owners = {path: owner for path in spanning if (owner := _owner_of(path))}
        library.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    group, groups = _groups(user, found.st_gid)
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(found.st_uid, found.st_uid, found.st_uid)
    os.environ.update(_named(user))
    if not user and not os.access(os.environ.get("HOME", "/"), os.R_OK | os.X_OK):
        os.environ["HOME"] = NO_HOME  # root's own, which it cannot enter
    if spanning:
        kept = _KEPT & _capabilities()[_PERMITTED]  # a container may give root less
        _keep(kept)
        _Kept.rights = kept == _KEPT
    close_to_others()  # a change of user may open it (fs.suid_dumpable)


@contextmanager
def as_owner_of(directory: Path) -> Iterator[None]:
    """These steps, in this process, as the user who owns the directory: with that user's rights over files, and no others.

    For root, and for root's command that goes on as another user (`spanning`). As ourselves where we may not, or the directory is not there.
    """
    owner, own = _owner_of(directory), os.geteuid()
    if owner is None or owner[0] == own or not _may_become_others():
        yield
        return
    own_groups, own_group = os.getgroups(), os.getegid()
    group, groups = _groups(_user(owner[0]), owner[1])
    os.setgroups(groups)
    os.setegid(group)
    os.seteuid(owner[0])  # the real user stays, and with it the way back
    try:
        yield
    finally:
        os.seteuid(own)
        if _Kept.rights:  # whoever was root for a while has lost them
            _keep(_KEPT)
        os.setegid(own_group)
        os.setgroups(own_groups)
        close_to_others()


def _may_become_others() -> bool:
    return _Kept.rights or (os.geteuid() == 0 and _capabilities()[_EFFECTIVE] & _KEPT == _KEPT)


def _owner_of(directory: Path) -> tuple[int, int] | None:
    """None if it is not there, or the way to it is closed."""
    if directory in _Kept.owners:
        return _Kept.owners[directory]
    try:
        found = directory.stat()
    except OSError:
        return None
    return found.st_uid, found.st_gid


def _user(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _groups(user: pwd.struct_passwd | None, group: int) -> tuple[int, list[int]]:
    """The group of a user, and all others; of one without a name this one."""
    return (user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid)) if user else (group, [])


def _named(user: pwd.struct_passwd | None) -> dict[str, str]:
    """What the environment says of a user."""
    return {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name} if user else {}


def _capabilities() -> list[int]:
    """Effective, permitted, inheritable; then the upper halves."""
    sets = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capget((ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    return list(sets)


def _keep(capabilities: int) -> None:
    """These; all else is gone."""
    header, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)(capabilities, capabilities)
    if ctypes.CDLL(None, use_errno=True).capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def child_as_owner_of(directory: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Arguments for subprocess by which a child runs as the user that owns the directory; as ourselves if that is so, or we may not do more."""
    uid, gid = _owner_of(directory) or (os.geteuid(), os.getegid())
    if uid == os.geteuid() or not (_Kept.rights or os.geteuid() == 0):
        return {"env": environment}
    user = _user(uid)
    group, groups = _groups(user, gid)
    return {"env": environment | _named(user), "user": uid, "group": group, "extra_groups": groups}
