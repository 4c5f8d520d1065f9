"""Workers of a Dask cluster (`hmem-night worker` on other hosts, mostly with a GPU). Dask moves the tasks; what a worker answers is proven as far as
it can be (Dask itself trusts every host of the cluster, docs/workers.md): a worker that dies, hangs, runs another program or answers with another
model is left out until the night ends.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from nightly.workers.address import security_of
from nightly.workers.task import Crew, Frames, ResultRefused, TaskKind, name_of, program
from shared.errors import HmemError

if TYPE_CHECKING:
    from distributed import Client, Future

    from shared.config.settings import Settings

#: Seconds to reach the scheduler; between two looks at the workers; and how many workers try a task before this process does it.
CONNECT_SECONDS, LOOK_SECONDS, ATTEMPTS = 10.0, 1.0, 3


class _ClusterLost(Exception):
    """The scheduler does not answer, or no worker is left."""


class _Answer(NamedTuple):
    worker: str
    program: str
    frames: Frames
    failed: str = ""  # name of an error


@dataclass
class _Sent:
    task: Frames
    future: Future
    key: str
    at: float = field(default_factory=time.monotonic)


def work(run: Callable[[Frames], Frames], task: Frames) -> _Answer:
    """On a worker. An error is answered by its name: Dask would log the task with it, that is what people said."""
    from distributed import get_worker

    from shared.text import caches

    address = str(get_worker().address)
    try:
        return _Answer(address, program(), run(task))
    except Exception as error:  # noqa: BLE001 - whatever it is, the night has it done elsewhere, at last by itself
        return _Answer(address, program(), (), type(error).__name__)
    finally:
        caches.empty_all()


def connect(settings: Settings, address: str, say: Callable[[str], None], otherwise: Crew) -> Crew:
    """The cluster, or `otherwise` if the scheduler cannot be reached."""
    import dask.config
    from distributed import Client

    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"})  # large tasks are meant
    for name in ("distributed", "distributed.client", "distributed.core", "distributed.comm"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said in the night's report
    try:
        client = Client(
            address,
            timeout=CONNECT_SECONDS,
            security=security_of(settings, address),
            set_as_default=False,
            name="night",
        )
    except (OSError, TimeoutError, ValueError) as error:
        say(
            f"The scheduler {address} cannot be reached ({type(error).__name__}). The night goes on without its workers."
        )
        return otherwise
    return Cluster(client, settings.night_worker_timeout, say, otherwise)


class Cluster:
    """As `Crew`. If the cluster is lost, `otherwise` does the rest."""

    def __init__(self, client: Client, limit: float, say: Callable[[str], None], otherwise: Crew) -> None:
        """`limit`: seconds for a task, and the same again while it waits for another one."""
        self._client: Client | None = client
        self._limit, self._say, self._otherwise = limit, say, otherwise
        self._threads: dict[str, int] = {}
        self._left_out = set[str]()
        self._looked_at = -LOOK_SECONDS

    def map(self, kind: TaskKind, tasks: Iterable[Frames]) -> Iterator[Frames]:
        rest, waiting = iter(tasks), deque[_Sent]()
        unsent: Iterable[Frames] = ()
        try:
            while True:
                while len(waiting) < self._room(kind) and (task := next(rest, None)) is not None:
                    unsent = (task,)
                    waiting.append(self._send(kind, task))
                    unsent = ()
                if not waiting:
                    self._look(now=True)
                    return
                answer = self._answer(kind, waiting)
                waiting.popleft()
                yield answer
        except _ClusterLost as why:
            self._lose(str(why))
        yield from self._otherwise.map(kind, chain([sent.task for sent in waiting], unsent, rest))

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close(timeout=5)
        self._otherwise.close()

    def _answer(self, kind: TaskKind, waiting: deque[_Sent]) -> Frames:
        """That of the first task."""
        task = waiting[0].task
        for attempt in range(ATTEMPTS):
            if attempt:
                waiting[0] = self._send(kind, task, again=True)
            answer = self._wait(waiting[0])
            if isinstance(answer, _Answer) and (frames := self._proven(kind, task, answer)) is not None:
                return frames
        return kind.in_this_process(task)

    def _proven(self, kind: TaskKind, task: Frames, answer: _Answer) -> Frames | None:
        """What was answered; None if it is not to be used."""
        if answer.program != program():
            self._leave_out(answer.worker, "it runs another version of this program, of Python or of a library")
        elif answer.failed:
            self._leave_out(answer.worker, f"a task of kind {kind.name} failed there ({answer.failed})")
        else:
            try:
                kind.prove(task, answer.frames)
            except ResultRefused as why:
                self._leave_out(answer.worker, str(why))
            else:
                return answer.frames
        return None

    def _wait(self, sent: _Sent) -> _Answer | None:
        """The answer; None if there is none within the limit, or Dask gave the task up."""
        try:
            while True:
                try:
                    answer: _Answer = sent.future.result(timeout=LOOK_SECONDS)
                except TimeoutError:
                    self._look()
                    if time.monotonic() - sent.at > 2 * self._limit:  # it may have waited for another one
                        self._leave_out_who_has(sent.key)
                        return None
                else:
                    return answer
        except (HmemError, _ClusterLost):
            raise  # the step's time limit, or said already
        except Exception as error:
            if sent.future.status == "error":  # it has killed several workers, or could not be read there
                self._say(f"The cluster of NIGHT_WORKERS gave a task up ({type(error).__name__}). It is done again.")
                return None
            raise _ClusterLost(f"its scheduler does not answer ({type(error).__name__})") from error
        finally:
            sent.future.release()  # nothing of it is kept on the cluster

    def _send(self, kind: TaskKind, task: Frames, *, again: bool = False) -> _Sent:
        """To the workers that are not left out; _ClusterLost if there are none."""
        self._look(now=again)
        usable = [worker for worker in self._threads if worker not in self._left_out]
        if self._client is None or not usable:
            raise _ClusterLost("it has no worker that may be used")
        key = name_of(kind, task) + (f"-{time.monotonic_ns()}" if again else "")
        try:
            future = self._client.submit(work, kind.run, task, key=key, workers=usable, pure=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise _ClusterLost(f"its scheduler does not answer ({type(error).__name__})") from error
        return _Sent(task, future, key)

    def _room(self, kind: TaskKind) -> int:
        """Tasks that are sent at the same time."""
        return (1 + kind.ahead) * max(
            1, sum(count for worker, count in self._threads.items() if worker not in self._left_out)
        )

    def _look(self, *, now: bool = False) -> None:
        """Which workers there are; those that went are named."""
        if self._client is None or (not now and time.monotonic() - self._looked_at < LOOK_SECONDS):
            return
        try:
            found = dict(self._client.nthreads())
        except HmemError:
            raise
        except Exception as error:
            raise _ClusterLost(f"its scheduler does not answer ({type(error).__name__})") from error
        for worker in self._threads.keys() - found.keys() - self._left_out:
            self._leave_out(worker, "it is gone")
        self._threads, self._looked_at = found, time.monotonic()

    def _leave_out_who_has(self, key: str) -> None:
        if self._client is None:
            return
        for worker, keys in self._client.processing().items():
            if key in map(str, keys):
                self._leave_out(worker, f"it has not answered a task within {self._limit:g} s")

    def _leave_out(self, worker: str, why: str) -> None:
        if worker not in self._left_out:
            self._left_out.add(worker)
            self._say(f"The worker {worker} is left out: {why}. Others do its tasks.")

    def _lose(self, why: str) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.close(timeout=1)
            self._say(f"The cluster of NIGHT_WORKERS is not used any more: {why}. The night goes on without it.")
