"""Who does the tasks of a large night: processes of this host, the workers of a Dask scheduler, or this process.

A task is what a function of a module is called with; both it and its answer can be pickled. It may be done anywhere, and twice, and gives the same.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing import connection, get_context, parent_process
from typing import Any, TypeVar

from shared.system.privileges import close_to_others
from shared.text import caches

Task = TypeVar("Task")
Done = TypeVar("Done")
Item = TypeVar("Item")
#: Bytes of what is read for one task.
TASK_BYTES = 1_000_000
#: Texts from which on processes of this host, or a cluster, are worth their start.
FEWEST_FOR_PROCESSES, FEWEST_FOR_CLUSTER = 50_000, 1_000
#: How often workers are started; seconds to reach a scheduler, and between two looks for its workers.
STARTS, CONNECT_SECONDS, LOOK_SECONDS = 2, 10.0, 1.0
#: The versions of what an answer follows from besides its task.
PROGRAM = repr(
    (sys.version_info[:2], sqlite3.sqlite_version, [*map(version, ("hcli-memory", "snowballstemmer", "regex"))])
)
_LOST = (BrokenExecutor, CancelledError, OSError, RuntimeError, ValueError, ImportError)


@dataclass(frozen=True)
class Undone:
    """A task that the night has to do itself. `error`: its name, or "" if nobody else was to do it."""

    error: str = ""


def tasks_of(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """The items in lists, each of TASK_BYTES or the last one more; none is divided."""
    some, size = list[Item](), 0
    for item in items:
        some.append(item)
        size += size_of(item)
        if size >= TASK_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


class Workers:
    """Of one night. They are started by the first map that is large enough, and kept until it ends."""

    def __init__(self, wanted: str, say: Callable[[str], None]) -> None:
        """`wanted`: NIGHT_WORKERS."""
        self._wanted, self._say, self._cluster = wanted, say, "://" in wanted
        self._executor: Executor | None = None
        self._client: Any = None
        self._count, self._starts = 0, 0
        #: What went wrong with workers, a sentence each.
        self.complaints: list[str] = []

    def map(
        self,
        work: Callable[[Task], Done],
        tasks: Iterable[Task],
        texts: int,
        here: Callable[[Task], Done] | None = None,
        *,
        cluster_only: bool = False,
    ) -> Iterator[Done]:
        """The answers in the order of the tasks, which are read a few ahead.

        `texts`: about how many all tasks are about. `here`: how this process does a task, and does again what fails elsewhere.
        """
        least = FEWEST_FOR_CLUSTER if self._cluster else FEWEST_FOR_PROCESSES
        alone = texts < least or self._wanted == "1" or (cluster_only and not self._cluster)
        rest, sent = iter(tasks), deque[tuple[Task, Future[Done | Undone] | None]]()
        while True:
            while len(sent) <= self._count and (task := next(rest, None)) is not None:
                sent.append((task, None if alone else self._send(work, task)))
            if not sent:
                return
            try:
                answer = self._answer(sent[0][1])
            except _LOST as error:
                self.close()
                who = "They are started again" if self._starts < STARTS else "The night itself does the rest"
                self._complain(f"They were lost ({type(error).__name__}). {who}.")
                sent = deque((task, self._send(work, task)) for task, _ in sent)
            else:
                task, _ = sent.popleft()
                yield (here or work)(task) if isinstance(answer, Undone) else answer

    def close(self) -> None:
        """End what was started."""
        if self._client is not None:
            self._client.close(timeout=5)
        elif self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
        self._executor = self._client = None

    def _send(self, work: Callable[[Task], Done], task: Task) -> Future[Done | Undone] | None:
        try:
            if self._executor is None and self._starts < STARTS:
                self._starts += 1
                self._start()
            return self._executor.submit(_work, PROGRAM, work, task) if self._executor else None
        except _LOST as error:  # raised when its turn comes, after what was sent before
            failed = Future[Done | Undone]()
            failed.set_exception(error)
            return failed

    def _start(self) -> None:
        if self._cluster:
            from distributed import Client

            self._client = Client(self._wanted, timeout=CONNECT_SECONDS, set_as_default=False)
            self._executor, self._count = self._client.get_executor(pure=False), sum(self._client.nthreads().values())
        else:
            self._count = int(self._wanted) if self._wanted.isdecimal() else len(os.sched_getaffinity(0))
            self._executor = ProcessPoolExecutor(self._count, get_context("spawn"), initializer=_begin)

    def _answer(self, future: Future[Done | Undone] | None) -> Done | Undone:
        """One of _LOST is raised if the workers are."""
        if future is None:
            return Undone()
        while not wait([future], LOOK_SECONDS).done:
            if self._client is not None and not self._client.nthreads():
                raise BrokenExecutor("no worker is left")
        if isinstance(error := future.exception(), _LOST):
            raise error
        answer = Undone(type(error).__name__) if error else future.result()
        if isinstance(answer, Undone):
            self._complain(f"A task failed there ({answer.error}), and was done by the night itself.")
        return answer

    def _complain(self, what: str) -> None:
        sentence = f"Workers (NIGHT_WORKERS={self._wanted}): {what}"
        if sentence not in self.complaints:
            self.complaints.append(sentence)
            self._say(f"  {sentence}")


def _work(program: str, work: Callable[[Task], Done], task: Task) -> Done | Undone:
    """On a worker. An error is answered by its name: Dask would log the task with it, that is what people said."""
    try:
        return work(task) if program == PROGRAM else Undone("another version of the program")
    except Exception as error:  # noqa: BLE001 - the night does the task itself, and raises what it must
        return Undone(type(error).__name__)
    finally:
        caches.empty_all()


def _begin() -> None:
    """In a new process: other users see nothing of it, and it ends with the night, which the library does not notice."""
    close_to_others()
    if night := parent_process():
        threading.Thread(target=lambda: os._exit(len(connection.wait([night.sentinel]))), daemon=True).start()
