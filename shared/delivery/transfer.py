"""How files are copied by rsync, and what that moved."""

from __future__ import annotations

import contextlib
import re
import subprocess
from functools import cache
from pathlib import Path

from shared.system.processes import run_bounded

#: In what `--stats` prints.
_MOVED = re.compile(r"^Total bytes (?:sent|received): ([\d.,]+)$", re.MULTILINE)


def copy_command(source: Path, destination: str, names: Path, *more: str) -> list[str]:
    """`names`: a file with the names of the files to copy, relative to `source`, separated by zero bytes; rsync itself refuses names outside."""
    command = ["rsync", "--perms", "--stats", "--from0", f"--files-from={names}", *more]
    return [*command, f"{source}/", destination]


def moved_bytes(output: str) -> int:
    """Sent and received together."""
    return sum(int(re.sub(r"\D", "", count)) for count in _MOVED.findall(output))


@cache
def durable_option() -> tuple[str, ...]:
    """rsync can make what it writes durable since 3.2.4; nothing for an older one."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return ("--fsync",) if "--fsync" in run_bounded(["rsync", "--help"], 60).stdout else ()
    return ()
