"""Starts a command inside Landlock, the kernel's sandbox for unprivileged processes.

Landlock, and the loss of capabilities, hold for the thread that asks for them and for what it starts. So a thread that is made for one command goes
into the sandbox, starts the command and ends: 1.3 ms of CPU. A launcher in Python that becomes the command took 17.

Neither the command nor its children can inspect an outside process (/proc/<pid>/mem, environ, fd, root), trace it or, since Linux 6.12, send it a
signal. Our own thread, which is inside, has ended before the command is given anything. It has no capabilities, not even as root: some
(CAP_PERFMON, CAP_SYS_ADMIN) would read a process' memory and environment despite Landlock. HIDDEN directories and files cannot be read or written,
except the SHOWN ones inside them. All other paths get rights; in a directory above that cannot be listed, only the NEEDED ones. If the kernel lacks
Landlock (or a filter forbids it) the command runs without it; if the sandbox cannot be set up completely, the command runs with what is possible,
and the log says so: no answer is lost because of it.

When memory runs out, the kernel ends the command before this program.
"""

from __future__ import annotations

import ctypes
import os
import stat
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

_CREATE, _ADD_RULE, _RESTRICT, _VERSION = 444, 445, 446, 1
_NO_NEW_PRIVILEGES, _PATH_BENEATH = 38, 1
#: Rights by the version that introduced them: 13 on files and directories, moving between directories, truncating.
_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14}
#: Those of a file: execute, write, read, truncate.
_OF_A_FILE = 0b111 | 1 << 14
#: A ruleset must name a right: creating block devices, which is not allowed here anyway.
_NEXT_TO_NOTHING = 1 << 11
_SCOPE_SIGNALS, _SCOPES_SINCE = 1 << 1, 6

#: By how much the command is easier to end than this process, of 1000 at most: as if it used half of all memory in addition.
_GIVES_WAY, _MOST = 500, 1000

_libc = ctypes.CDLL(None, use_errno=True)


#: Version 3 of capset's header: 64 capabilities, as two rows of effective, permitted and inheritable.
_CAPABILITIES_VERSION = 0x20080522


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("directory", ctypes.c_int32))


def version() -> int:
    """The version of the kernel's Landlock; 0 if it is missing or forbidden."""
    known: int = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    return max(0, known)


def beside(hidden: list[str], needed: list[str], above: str = "/") -> list[str]:
    """Everything except what is hidden, in as few paths as possible. Links are left out, because they grant no rights."""
    found: list[str] = []
    for path in _inside(above, needed):
        if path in hidden or any(path.startswith(one + "/") for one in hidden):
            continue
        inside = any(one.startswith(path + "/") for one in hidden)
        found += beside(hidden, needed, path) if inside else [path]
    return found


def _inside(above: str, needed: list[str]) -> list[str]:
    """The entries of a directory; for one that this user may enter but not list, the needed ones."""
    try:
        with os.scandir(above) as entries:
            return [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        return [path for path in needed if path.startswith(above.rstrip("/") + "/")]


def confine(hidden: list[str], shown: list[str], needed: list[str]) -> None:
    """Set up the sandbox for this thread and what it starts. OSError if the kernel refuses."""
    known = version()
    rights = (
        sum(bits for since, bits in _RIGHTS.items() if since <= known) if hidden and known >= 2 else _NEXT_TO_NOTHING
    )
    ruleset = (ctypes.c_uint64 * 3)(rights, 0, _SCOPE_SIGNALS if known >= _SCOPES_SINCE else 0)
    size = 24 if known >= _SCOPES_SINCE else 8  # an older kernel refuses unknown fields
    fence = _checked(_libc.syscall(_CREATE, ruleset, ctypes.c_size_t(size), 0))
    try:
        if rights != _NEXT_TO_NOTHING:
            for path in [*beside(hidden, needed), *shown]:
                _allow(fence, path, rights)
        _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _checked(_libc.syscall(_RESTRICT, fence, 0))
    finally:
        os.close(fence)


def _allow(fence: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it has gone, or this user may not open it anyway
        return
    try:
        if not stat.S_ISDIR(os.fstat(opened).st_mode):
            rights &= _OF_A_FILE
        _checked(_libc.syscall(_ADD_RULE, fence, _PATH_BENEATH, ctypes.byref(_Beneath(rights, opened)), 0))
    finally:
        os.close(opened)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def confine_as_possible(hidden: list[str], shown: list[str], needed: list[str]) -> str:
    """Set up the whole sandbox, or the part that is possible; why it is only a part, or ""."""
    missing = ""
    if version():
        try:
            confine(hidden, shown, needed)
        except OSError as failed:
            missing = f"the sandbox is incomplete: {failed}"
            if hidden:
                confine_as_possible([], [], [])
    try:
        drop_capabilities()
    except OSError as failed:
        missing = f"the capabilities stay: {failed}"
    return missing


def drop_capabilities() -> None:
    """Of this thread and, since it gets no new privileges, of whatever it starts. OSError if the kernel refuses."""
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(_libc.capset((ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0), (ctypes.c_uint32 * 6)()))


def give_way(process: int) -> None:
    """Let the kernel end a process and the children that it will have first when memory runs out. It takes no privilege."""
    score = Path(f"/proc/{process}/oom_score_adj")
    with suppress(OSError):  # it has ended
        score.write_text(str(min(_MOST, int(score.read_text()) + _GIVES_WAY)))


def start_inside(
    paths: tuple[list[str], list[str], list[str]], report: Callable[[str], None], command: list[str], **how: Any
) -> subprocess.Popen[bytes]:
    """Like subprocess.Popen. `paths`: hidden, shown and needed ones; `report` is told what of the sandbox is missing."""

    def start() -> subprocess.Popen[bytes]:
        if missing := confine_as_possible(*paths):
            report(missing)
        process = subprocess.Popen(command, **how)
        give_way(process.pid)
        return process

    with ThreadPoolExecutor(1) as made_for_this:
        return made_for_this.submit(start).result()
