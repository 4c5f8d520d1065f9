"""Restart: run the owner's command, if there is one. Memory is published and flushed by then: a failure is an alarm, never undone."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

from nightly.night import Night
from shared.errors import RestartFailed


def run(night: Night, out: Path) -> dict[str, Any]:
    del out
    command = night.settings.restart_command
    if not command:
        return {"restarted": False, "why": "no RESTART_COMMAND: the dispatcher notices the release by itself"}
    try:
        done = subprocess.run(
            shlex.split(command),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=night.settings.restart_timeout,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise RestartFailed(
            f"RESTART_COMMAND could not be run: {error}. Memory is published; restart the dispatcher by hand."
        ) from error
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip()[-300:]
        raise RestartFailed(
            f"RESTART_COMMAND ended with {done.returncode}: {reason}. Memory is published; restart the dispatcher by hand."
        )
    return {"restarted": True, "why": None}
