"""Runs a command inside Landlock, the kernel's fence for unprivileged processes:
    confine.py '{"hidden": […], "shown": […], "needed": […]}' COMMAND …

Run as a file, by a Python without our packages: it takes some 20 ms. From then on neither the command nor what it starts can look into a process
outside (/proc/<pid>/mem, environ, fd, root), trace it or, from Linux 6.12 on, send it a signal. `hidden` directories and files cannot be read or
written, but for what of them is `shown`. Rights are given to what lies beside them; where a directory above may not be listed, only to what is
`needed` there. Where the kernel lacks Landlock (or a filter forbids it) the command runs without; where the fence cannot be had as told, with what
can be had of it, and a line on standard error says so: an answer is never lost over it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import stat
import sys
from collections.abc import Iterator

_CREATE, _ADD_RULE, _RESTRICT, _VERSION = 444, 445, 446, 1
_NO_NEW_PRIVILEGES, _PATH_BENEATH = 38, 1
#: Rights by the version that brought them: 13 on files and directories, moving between directories, cutting.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14}
#: Those of a file: execute, write, read, cut.
_OF_A_FILE = 0b111 | 1 << 14
#: A ruleset must name something: making block devices, which nobody here may anyway.
_NEXT_TO_NOTHING = 1 << 11
_SCOPE_SIGNALS, _SCOPES_SINCE = 1 << 1, 6

_libc = ctypes.CDLL(None, use_errno=True)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("directory", ctypes.c_int32))


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none, or none for us."""
    known: int = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, known)


def beside(hidden: list[str], needed: list[str], above: str = "/") -> Iterator[str]:
    """Everything there is but what is hidden, in as few paths as possible. A link gives no right of its own."""
    for path in _inside(above, needed):
        if path in hidden or any(path.startswith(one + "/") for one in hidden):
            continue
        if any(one.startswith(path + "/") for one in hidden):
            yield from beside(hidden, needed, path)
        else:
            yield path


def _inside(above: str, needed: list[str]) -> list[str]:
    """What is in a directory; of one that this user may pass through and not list, what is needed."""
    try:
        with os.scandir(above) as entries:
            return [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        return [path for path in needed if path.startswith(above.rstrip("/") + "/")]


def confine(hidden: list[str], shown: list[str], needed: list[str]) -> None:
    """From here on, for this process and its children. OSError where the kernel refuses."""
    known = version()
    rights = (
        sum(bits for since, bits in _RIGHTS.items() if since <= known) if hidden and known >= 2 else _NEXT_TO_NOTHING
    )
    ruleset = (ctypes.c_uint64 * 3)(rights, 0, _SCOPE_SIGNALS if known >= _SCOPES_SINCE else 0)
    size = 24 if known >= _SCOPES_SINCE else 8  # what an older kernel does not know must not be there
    fence = _checked(_libc.syscall(_CREATE, ruleset, ctypes.c_size_t(size), 0))
    if rights != _NEXT_TO_NOTHING:
        for path in [*beside(hidden, needed), *shown]:
            _allow(fence, path, rights)
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_libc.syscall(_RESTRICT, fence, 0))
    os.close(fence)


def _allow(fence: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # gone, or not for this user anyway
        return
    if not stat.S_ISDIR(os.fstat(opened).st_mode):
        rights &= _OF_A_FILE
    _checked(_libc.syscall(_ADD_RULE, fence, _PATH_BENEATH, ctypes.byref(_Beneath(rights, opened)), 0))
    os.close(opened)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def confine_as_told(told: dict[str, list[str]]) -> None:
    """The whole fence, or what can be had of it."""
    try:
        confine(**told)
    except OSError as failed:
        sys.stderr.write(f"confine: the fence is not whole: {failed}\n")
        with contextlib.suppress(OSError):
            confine([], [], [])


if __name__ == "__main__":
    if version():
        confine_as_told(json.loads(sys.argv[1]))
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is meant
    except OSError as failed:
        sys.stderr.write(f"{sys.argv[2]}: {failed.strerror}\n")
        sys.exit(127 if failed.errno == errno.ENOENT else 126)  # as shells and env(1) say it
