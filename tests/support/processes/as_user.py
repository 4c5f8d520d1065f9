"""Run a command as another user, with no right of root's left:   python -m tests.support.processes.as_user UID GID[,GROUP…] COMMAND …

In a mount namespace of its own, so that a Python that lies behind a closed directory (/root) can be reached there. UID 0 only makes the namespace.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NEW_MOUNTS, _RECURSIVE_PRIVATE, _BIND = 0x20000, 0x4000 | 1 << 18, 0x1000


def command(uid: int, groups: tuple[int, ...], *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.processes.as_user", str(uid), ",".join(map(str, groups)), *words]


def _mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [word.encode() if word else None for word in (source, str(target), kind, options)]
    if ctypes.CDLL(None, use_errno=True).mount(words[0], words[1], words[2], flags, words[3]) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def _open_the_way(place: Path) -> None:
    """Lay an empty directory over the closed one, and in it what is wanted."""
    closed = next((above for above in reversed(place.parents) if not above.stat().st_mode & 0o001), None)
    if closed is None:
        return
    inside = os.open(place, os.O_PATH)
    _mount("none", closed, "tmpfs", 0, "mode=755")
    place.mkdir(parents=True)
    _mount(f"/proc/self/fd/{inside}", place, None, _BIND)
    os.close(inside)


def main() -> None:
    uid, groups = int(sys.argv[1]), [int(group) for group in sys.argv[2].split(",")]
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", Path("/"), None, _RECURSIVE_PRIVATE)
    _open_the_way(Path(sys.base_prefix))
    os.setgroups(groups[1:])
    os.setresgid(groups[0], groups[0], groups[0])
    os.setresuid(uid, uid, uid)
    os.execvp(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
