"""When questions are being answered from memory: the day's turns get their vectors in between, so that no question waits for the model or a core."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Seconds without a question from which on nobody is about to ask: from a full queue the next one comes within some milliseconds.
QUIET_SECONDS = 0.1


class Questions:
    """The questions whose memory is being read. Thread-safe."""

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
