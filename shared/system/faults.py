"""Points at which tests make this process die, as if the power had gone (HMEM_CRASH_AT)."""

from __future__ import annotations

import os
import signal

from shared.config.settings import Settings


class _Process:
    crash_at: str | None = None


def arm(settings: Settings) -> None:
    """From here on this process dies at the point that the settings name, if they name one."""
    _Process.crash_at = settings.hmem_crash_at


def crash_point(name: str) -> None:
    if _Process.crash_at == name:
        os.kill(os.getpid(), signal.SIGKILL)
