"""The entry point to the day's memory: one object for each dispatcher, command or tool server, cheap until it is used.

It has the day store, the day's embedder and the tombstone filter. Each of them may be unavailable: then `degraded` has the reason, and only the
release is searched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from dispatcher.memory.day.context import ContextReader, DayContext, PromptRequest, in_time
from dispatcher.memory.day.parts import DayParts
from dispatcher.memory.day.requests import MemoryRequests
from dispatcher.memory.day.upkeep import DayUpkeep
from shared.config.settings import Settings
from shared.errors import HmemError

if TYPE_CHECKING:
    from dispatcher.memory.session_summary import SummaryWriter
    from dispatcher.memory.typed.acting_on_tags import TagActing
    from dispatcher.releases.served import ReadRelease

log = structlog.get_logger()

#: A chat id that no chat can have: the records refuse it.
NOBODY = "0"
#: Seconds without a question from which on nobody is about to ask: from a full queue the next one comes within some milliseconds.
QUIET_SECONDS = 0.1


class Questions:
    """The questions whose memory is being read: the day's turns get their vectors in between, so that no question waits for the model or a core.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._being_read = 0
        self._last = -QUIET_SECONDS
        self._changed = threading.Condition()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While a question's memory is read, from the claim's first look into memory to the finished prompt."""
        with self._changed:
            self._being_read += 1
        try:
            yield
        finally:
            with self._changed:
                self._being_read -= 1
                self._last = time.monotonic()
                self._changed.notify_all()

    def wait_until_quiet(self, seconds: float) -> bool:
        """Wait until no memory has been read for QUIET_SECONDS; False if that takes longer than `seconds`."""
        ends = time.monotonic() + seconds
        with self._changed:
            while (wait := self._quiet_in()) > 0:
                left = ends - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(wait, left))
        return True

    def _quiet_in(self) -> float:
        """Seconds until it is quiet if nobody asks; while somebody does, as many as it takes at least."""
        return QUIET_SECONDS if self._being_read else self._last + QUIET_SECONDS - time.monotonic()


class DayMemory(DayParts):
    """Thread-safe. `read_release` returns the release to read together with the day, `writer` writes session summaries."""

    def __init__(self, settings: Settings, read_release: ReadRelease, writer: SummaryWriter | None = None) -> None:
        super().__init__(settings, read_release)
        self.questions = Questions()
        self.opened = False  # or tried to
        self._pool = ThreadPoolExecutor(settings.max_concurrent_tasks, thread_name_prefix="day")
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="counting")
        self.requests, self.upkeep = MemoryRequests(self), DayUpkeep(self, writer)
        self._reader = ContextReader(self, self._counting)

    @property
    def acting(self) -> TagActing:
        return self.requests.acting

    def open(self) -> None:
        """Load and connect what `context` needs, because that has only a few hundred milliseconds. Slow; raises nothing."""
        self.embedder.open()
        try:
            self.remembering.of_chat(NOBODY)
            self.items(NOBODY)
        except HmemError as error:
            log.warning("the day store is unavailable", reason=str(error))
        finally:
            self.opened = True

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._counting.shutdown(wait=True)  # finish counting what was shown; the store's time limits bound the wait
        super().close()

    def context(self, request: PromptRequest, settings: Settings) -> DayContext:
        """What the day adds to a prompt, within MEMORY_DEADLINE_MS."""
        try:
            tombstones = tuple(self.forgotten.of(request.chat_id))
        except HmemError as error:
            return DayContext(unproven=str(error))
        empty = DayContext(tombstones=tombstones, family=self.embedder.family)
        if not self.wanted:
            return empty
        return in_time(self._pool, lambda: self._reader.read(request, empty), empty, settings.memory_deadline_ms / 1000)
