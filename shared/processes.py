"""Child processes that end: in a group of their own, within a time limit, whatever happens to us meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO


def run_bounded(
    command: list[str],
    timeout_seconds: float,
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; subprocess.TimeoutExpired if it takes longer: then its process group is killed.

    Its output goes to files, not pipes: a helper that it leaves behind in a session of its own (an ssh master connection, a daemon)
    keeps a pipe open and would keep us waiting.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
            env=environment,
            cwd=directory,
        )
        try:
            process.wait(timeout_seconds)
        finally:
            if process.returncode is None:  # too slow, or we are being stopped: nothing of it may write on
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return subprocess.CompletedProcess(command, process.returncode, _text(output), _text(errors))


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed child said last."""
    lines = (done.stderr or done.stdout or "").strip().splitlines()
    return lines[-1] if lines else f"exit {done.returncode}"
