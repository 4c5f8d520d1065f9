"""Children of ours end, whatever happens to us."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from shared.system.processes import run_bounded

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_child_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    started = started_processes(monkeypatch)
    with pytest.raises(subprocess.TimeoutExpired):
        run_bounded(SLEEP, 0.01)
    assert is_gone(started[0])


@pytest.mark.timeout(120)
def test_a_signal_may_come_while_the_wait_holds_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between `_waitpid_lock.acquire` and the `try` that releases it, as CPython's own wait has it."""
    started = started_processes(monkeypatch)

    def interrupted(process: Any, timeout: float | None = None) -> int:
        if timeout is not None:
            process._waitpid_lock.acquire()
            raise KeyboardInterrupt
        with process._waitpid_lock:
            raise AssertionError("the lock is free")

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_bounded(SLEEP, 60)
    assert is_gone(started[0])


def started_processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    numbers = list[int]()
    made = subprocess.Popen.__init__

    def noting(process: Any, *arguments: Any, **more: Any) -> None:
        made(process, *arguments, **more)
        numbers.append(process.pid)

    monkeypatch.setattr(subprocess.Popen, "__init__", noting)
    return numbers


def is_gone(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    return False
