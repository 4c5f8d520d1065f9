"""rsync, for whoever sends files to another directory or host: one call, bounded in time."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from shared.system.processes import run_bounded

#: Its own exit code for a connection that says nothing any more.
TIMED_OUT = 30
#: A new host key, and since OpenSSH 10 a key exchange that a quantum computer could undo.
SSH_WARNS = ("Warning: ", "** ")


class RsyncFailed(Exception):
    """Why, and its exit code; None if it could not be started."""

    def __init__(self, why: str, code: int | None = None) -> None:
        self.code = code
        super().__init__(why)


def rsync(*arguments: str, rsh: str | None, seconds: int, silence: int) -> str:
    """What it prints; RsyncFailed. `seconds`: for all of it; `silence`: without a byte, where it goes over a network through `rsh`."""
    through = ["--rsh", rsh, f"--timeout={silence}"] if rsh else []
    try:
        done = run_bounded(["rsync", "--from0", *through, *arguments], seconds)
    except subprocess.TimeoutExpired as error:
        raise RsyncFailed(f"rsync did not end within {seconds} s (check disk and network)", TIMED_OUT) from error
    except FileNotFoundError as error:
        raise RsyncFailed("rsync is not installed (scripts/setup installs it)") from error
    if done.returncode != 0:
        raise RsyncFailed(f"rsync ended with code {done.returncode}: {_complaint(done.stderr)}", done.returncode)
    return done.stdout


def _complaint(printed: str) -> str:
    """The first error: the last line only repeats the exit code. What ssh warns of before it connects is none."""
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.startswith(SSH_WARNS)]
    return lines[0].rstrip(".") if lines else "no output"


@contextmanager
def names_file(names: Iterable[str]) -> Iterator[str]:
    """The name of a file that has these names or rules, to be read by rsync."""
    with tempfile.NamedTemporaryFile(prefix="hmem-files-") as file:
        file.writelines(os.fsencode(name) + b"\0" for name in names)
        file.flush()
        yield file.name
