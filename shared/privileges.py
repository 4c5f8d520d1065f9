"""What a process may do and show: /proc closed to others of the same user; root's commands as the user whose files they touch."""

from __future__ import annotations

import ctypes
import os
import pwd
from pathlib import Path
from typing import Any

_PR_SET_DUMPABLE, _PR_SET_KEEPCAPS = 4, 8
_CAPABILITY_VERSION_3 = 0x20080522
#: CAP_DAC_OVERRIDE, CAP_SETGID and CAP_SETUID: `hmem forget` reaches the night's files, which are another user's, and starts a night as that one.
_STARTS_OTHERS = 1 << 6 | 1 << 7
_KEPT = 1 << 1 | _STARTS_OTHERS


class _Kept:
    """Whether this process gave up root but may still start others as their own users."""

    rights = False


def close_to_others() -> None:
    """No other process of this user may read our memory, environment or descriptors in /proc, or trace us. There is no core dump then, either."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")


def act_as_owner_of(directory: Path, *, spanning: bool = False) -> None:
    """Root becomes the user that owns the directory, so that no file of root's is left there. Nothing happens to others, and in root's own.

    `spanning`: for a command whose work is in the directories of several users. It keeps the right to reach them and to start children as them.
    """
    try:
        found = directory.stat()
    except OSError:  # not there yet, so it is nobody's
        return
    if os.geteuid() != 0 or found.st_uid == 0:
        return
    user = _user(found.st_uid)
    library = ctypes.CDLL(None, use_errno=True)
    if spanning:
        library.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups(os.getgrouplist(user.pw_name, user.pw_gid) if user else [])
    group = user.pw_gid if user else found.st_gid
    os.setresgid(group, group, group)
    os.setresuid(found.st_uid, found.st_uid, found.st_uid)
    if user:
        os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    if spanning:
        _keep_rights(library)


def _user(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def _keep_rights(library: ctypes.CDLL) -> None:
    """Of _KEPT what root had (a container may give it less); all else is gone."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the upper halves
    if library.capget(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    kept = _KEPT & sets[1]
    if library.capset(header, (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    _Kept.rights = kept & _STARTS_OTHERS == _STARTS_OTHERS


def child_as_owner_of(directory: Path, environment: dict[str, str]) -> dict[str, Any]:
    """Arguments for subprocess by which a child runs as the user that owns the directory; as ourselves if that is so, or we may not do more."""
    uid, gid = directory.stat().st_uid, directory.stat().st_gid
    if uid == os.geteuid() or not (_Kept.rights or os.geteuid() == 0):
        return {"env": environment}
    if (user := _user(uid)) is None:
        return {"env": environment, "user": uid, "group": gid, "extra_groups": []}
    named = {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    return {"env": environment | named, "user": uid, "group": user.pw_gid, "extra_groups": groups}
