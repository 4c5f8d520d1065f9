"""Child processes that end: in a group of their own, within a time limit, whatever happens to us meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path


def run_bounded(
    command: list[str],
    timeout_seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; subprocess.TimeoutExpired if it takes longer. Nothing of the group outlives this call."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
        env=environment,
        cwd=directory,
    )
    try:
        output, errors = process.communicate(timeout=timeout_seconds)
    finally:
        if process.returncode is None:  # too slow, or we are being stopped: nothing of it may write on
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed child said last."""
    lines = (done.stderr or done.stdout or "").strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode}"
