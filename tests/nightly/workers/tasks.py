"""Tasks that go wrong in a worker, once: the first worker that takes one of them leaves a file."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from nightly.workers.processes import Processes
from nightly.workers.task import Frames, TaskKind


def twice(task: Frames) -> Frames:
    return tuple(frame * 2 for frame in task)


def _first(task: Frames) -> bool:
    """Whether nobody has taken this task; the first frame is the path of a file."""
    try:
        Path(task[0].decode()).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def killed_once(task: Frames) -> Frames:
    if task[0] and _first(task):
        os.kill(os.getpid(), signal.SIGKILL)
    return twice(task)


def stopped_once(task: Frames) -> Frames:
    if task[0] and _first(task):
        os.kill(os.getpid(), signal.SIGSTOP)
    return twice(task)


def failing(task: Frames) -> Frames:
    raise KeyError(f"task of {len(task)} frames")


def own_id(task: Frames) -> Frames:
    return (str(os.getpid()).encode(),)


def work_for_ever() -> None:
    """A night with processes, which prints their ids and waits."""
    crew = Processes(2, 60.0, print)
    ids = {int(answer[0]) for answer in crew.map(TaskKind("id", own_id), [(b"%d" % number,) for number in range(50)])}
    sys.stdout.write(f"{' '.join(map(str, ids))}\n")
    sys.stdout.flush()
    time.sleep(600)
