"""After a forgetting, running processes drop their caches: `hmem forget` sets a mark in Redis, and a process that sees a new mark drops all its
caches. Until then the tombstones prevent the use of forgotten turns.

The mark is set twice: when everything is hidden, and when every layer is empty. After the second time no read can return forgotten data.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from shared.text import caches
from shared.text.logs import Logger
from shared.vectors.searching import forget_questions

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.releases.served import ServedRelease

log = Logger()


class CacheDropper:
    """For one dispatcher. `seen` is the last mark read from Redis, `dropped_for` the one for which the caches were dropped; "" is none."""

    def __init__(self, served: ServedRelease, day: DayMemory) -> None:
        self._served, self._day = served, day
        self._lock = threading.Lock()
        self.seen = self.dropped_for = ""

    @property
    def due(self) -> bool:
        return self.seen != self.dropped_for

    def drop_if_due(self) -> None:
        """Drop the caches, unless that was done for this mark. It opens the release again, so it is slow and belongs in a thread."""
        with self._lock:
            mark = self.seen
            if mark == self.dropped_for:
                return
            drop(self._day, self._served.reopen)
            self.dropped_for = mark
            log.info("something was forgotten: the caches are dropped")


def drop(day: DayMemory, release: Callable[[], None]) -> None:
    """Drop the caches of the day, those of the release (by calling `release`), and the global ones."""
    forget_questions()
    day.renew()
    release()
    caches.empty_all()
    gc.collect()  # some objects are in reference cycles
