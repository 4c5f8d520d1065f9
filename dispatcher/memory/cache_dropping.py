"""After a forgetting nothing of it stays in the caches of a process that runs: `hmem forget` raises a mark in Redis, and who sees another one than
before drops all that it keeps. Until then nothing forgotten is told either: the tombstones see to that.

The mark is raised twice: when everything is hidden, and when every layer is empty. From the second time on nothing that is read holds it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from shared.text import caches
from shared.vectors.searching import forget_questions

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.releases.served import ServedRelease

log = structlog.get_logger()


class CacheDropper:
    """Of one dispatcher. `seen` is the mark that Redis had last, `dropped_for` the one for which everything was dropped; "" is none."""

    def __init__(self, served: ServedRelease, day: DayMemory) -> None:
        self._served, self._day = served, day
        self._lock = threading.Lock()
        self.seen = self.dropped_for = ""

    @property
    def due(self) -> bool:
        return self.seen != self.dropped_for

    def drop_if_due(self) -> None:
        """Drop what is kept, unless that was done for this mark. It opens the release anew, so it is slow and belongs in a thread."""
        with self._lock:
            mark = self.seen
            if mark == self.dropped_for:
                return
            drop(self._day, self._served.reopen)
            self.dropped_for = mark
            log.info("something was forgotten: the caches are dropped")


def drop(day: DayMemory, release: Callable[[], None]) -> None:
    """Drop what the day keeps, what `release` does for the release, and what belongs to neither."""
    forget_questions()
    day.renew()
    release()
    caches.empty_all()
    gc.collect()  # some of it refers to itself
