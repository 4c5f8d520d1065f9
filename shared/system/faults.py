"""Points at which tests make this process die, as if the power had gone: HMEM_CRASH_AT in the environment names one."""

from __future__ import annotations

import os
import signal


def crash_point(name: str) -> None:
    if os.environ.get("HMEM_CRASH_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
