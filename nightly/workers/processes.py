"""Workers that are processes of this host. Each is a new Python that takes nothing over from the night but its tasks, and ends with it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import wait

from nightly.workers.task import Crew, Frames, TaskKind, ThisProcess
from shared.system.privileges import close_to_others

#: So often a task is tried in a process, and so often the processes are started.
ATTEMPTS, STARTS = 2, 4


@dataclass(frozen=True)
class _Sent:
    """A task and the pool that has it; none if there are no processes, and none are started any more."""

    task: Frames
    pool: ProcessPoolExecutor | None = None
    future: Future[Frames] | None = None


class Processes:
    """A pool of processes. What one that died, or took too long, was about is done again: in a new one, at last in this process."""

    def __init__(self, count: int, limit: float, say: Callable[[str], None]) -> None:
        """`limit`: seconds for a task."""
        self._count, self._limit, self._say = count, limit, say
        self._here: Crew = ThisProcess()
        self._pool: ProcessPoolExecutor | None = None
        self._started = 0

    def map(self, kind: TaskKind, tasks: Iterable[Frames]) -> Iterator[Frames]:
        if not kind.for_processes:
            yield from self._here.map(kind, tasks)
            return
        rest, waiting = iter(tasks), deque[_Sent]()
        while True:
            while len(waiting) < self._count + kind.ahead and (task := next(rest, None)) is not None:
                waiting.append(self._send(kind, task))
            if not waiting:
                return
            yield self._answer(kind, waiting.popleft())

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            _kill(pool)

    def _send(self, kind: TaskKind, task: Frames) -> _Sent:
        try:
            pool = self._pool or self._start()
            try:
                return _Sent(task, pool, pool.submit(kind.run, task) if pool else None)
            except BrokenExecutor:  # one died with nothing to do
                self._end("died")
                pool = self._start()
                return _Sent(task, pool, pool.submit(kind.run, task) if pool else None)
        except (BrokenExecutor, OSError, ImportError) as error:  # ImportError: a platform without semaphores
            self._end(f"could not be started ({type(error).__name__})")
            return _Sent(task)

    def _start(self) -> ProcessPoolExecutor | None:
        """None when they were started often enough."""
        if self._started >= STARTS:
            return None
        self._started += 1
        self._pool = ProcessPoolExecutor(self._count, multiprocessing.get_context("spawn"), initializer=_begin)
        return self._pool

    def _answer(self, kind: TaskKind, sent: _Sent) -> Frames:
        for _ in range(ATTEMPTS):
            if sent.future is None:
                break
            why = "died"
            try:  # asked like this, an error of the task is not raised: only one of this process (a step's time limit) is
                error = sent.future.exception(self._limit)
            except TimeoutError:
                error, why = BrokenExecutor(), f"took longer than {self._limit:g} s for a task"
            except CancelledError:
                error = BrokenExecutor()
            if error is None:
                return sent.future.result()
            if not isinstance(error, BrokenExecutor):
                break  # it is the task's fault, and is raised here
            if sent.pool is self._pool:  # else that was said, and they were replaced
                self._end(why)
            sent = self._send(kind, sent.task)
        return next(iter(self._here.map(kind, [sent.task])))

    def _end(self, why: str) -> None:
        """Kill all processes: which one it was is not known."""
        pool, self._pool = self._pool, None
        if pool is not None:
            _kill(pool)
        what = "New ones do" if self._started < STARTS else "The night itself does"
        self._say(f"A process of NIGHT_WORKERS {why}. {what} what was not done.")


def _kill(pool: ProcessPoolExecutor) -> None:
    """End all processes, whatever they do: they hold nothing but tasks, and one may hang."""
    # The library has no public way to do so (Python 3.14 has one).
    for process in list((pool._processes or {}).values()):
        process.kill()
    pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """In a new process: other users see nothing of it, and it ends when the night has died. The library does not notice that, and would leave
    the process waiting for tasks."""
    close_to_others()
    night = multiprocessing.parent_process()
    if night is not None:
        threading.Thread(target=_end_after, args=[night.sentinel], daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
