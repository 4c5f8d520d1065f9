"""Tasks for workers: some go wrong."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from nightly.night.workers import Workers

Frames = tuple[bytes, ...]


def twice(task: Frames) -> Frames:
    return tuple(frame * 2 for frame in task)


def killed_once(task: Frames) -> Frames:
    """The first worker that takes a task whose first frame is the path of a file leaves that file, and dies."""
    path = Path(task[0].decode())
    if task[0] and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return twice(task)


def own_id(task: Frames) -> Frames:
    return (str(os.getpid()).encode(),)


def work_for_ever() -> None:
    """A night with processes, which prints their ids and waits."""
    ids = {int(answer[0]) for answer in Workers("2", print).map(own_id, [(b"%d" % n,) for n in range(50)], 100_000)}
    sys.stdout.write(f"{' '.join(map(str, ids))}\n")
    sys.stdout.flush()
    time.sleep(600)
