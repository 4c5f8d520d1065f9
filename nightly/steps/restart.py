"""Restart: run the owner's command, if there is one. Memory is published and flushed by then: a failure is an alarm, never undone."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

from nightly.night.folder import Night
from shared.system.processes import last_line, run_bounded

#: How long the command may take.
TIMEOUT_SECONDS = 120.0


def run(night: Night, out: Path) -> dict[str, Any]:
    """`failed` holds what went wrong; the night is done all the same, and the command ends with RestartFailed."""
    del out
    command = night.settings.restart_command
    if not command:
        return {"restarted": False, "failed": None}
    try:
        done = run_bounded(shlex.split(command), TIMEOUT_SECONDS)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"restarted": False, "failed": str(error)}
    failed = None if done.returncode == 0 else f"it ended with {done.returncode}: {last_line(done)}"
    return {"restarted": failed is None, "failed": failed}
