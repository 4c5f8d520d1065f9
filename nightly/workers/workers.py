"""Who does a map of a night: chosen by NIGHT_WORKERS and by the number of texts. What a release holds does not depend on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from nightly.workers.address import refuse_unless_safe, scheduler_of
from nightly.workers.processes import Processes
from nightly.workers.task import Crew, Frames, TaskKind, ThisProcess
from shared.config.settings import Settings

#: Texts from which on processes of this host, or a cluster, are worth their start.
FEWEST_FOR_PROCESSES, FEWEST_FOR_CLUSTER = 50_000, 1_000


class Workers:
    """Of one night. They are started when the first map that is large enough needs them, and kept until it ends."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings, self._say = settings, say
        #: What went wrong with workers, a sentence each.
        self.complaints: list[str] = []
        self._here: Crew = ThisProcess()
        self._processes: Crew | None = None
        self._cluster: Crew | None = None

    def map(self, kind: TaskKind, tasks: Iterable[Frames], texts: int) -> Iterator[Frames]:
        """The answers in the order of the tasks; these are read lazily. `texts`: about how many texts all tasks together are about."""
        return self._crew(texts).map(kind, tasks)

    def close(self) -> None:
        """End what was started."""
        started = (self._cluster, self._processes)
        self._cluster = self._processes = None
        for crew in started:
            if crew:
                crew.close()

    def _crew(self, texts: int) -> Crew:
        address = scheduler_of(self._settings)
        if address is None or texts < FEWEST_FOR_CLUSTER:
            return self._on_this_host(texts)
        if self._cluster is None:
            from nightly.workers.cluster import connect  # a library of 0.5 s

            refuse_unless_safe(self._settings, address)
            self._cluster = connect(self._settings, address, self._complain, self._on_this_host(texts))
        return self._cluster

    def _on_this_host(self, texts: int) -> Crew:
        count = self._count()
        if count < 2 or texts < FEWEST_FOR_PROCESSES:
            return self._here
        if self._processes is None:
            self._processes = Processes(count, self._settings.night_worker_timeout, self._complain)
        return self._processes

    def _count(self) -> int:
        """Processes that NIGHT_WORKERS allows on this host."""
        wanted = self._settings.night_workers
        return int(wanted) if wanted.isdecimal() else len(os.sched_getaffinity(0))

    def _complain(self, sentence: str) -> None:
        self.complaints.append(sentence)
        self._say(f"  {sentence}")
