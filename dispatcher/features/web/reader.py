"""The memory of this host for the page: opened when it is first used, read by one request at a time, and let go when it is not needed.

A release that is open cannot be removed, and `hmem forget` has to remove it. So a thread looks every few seconds whether `current` has moved or
something was forgotten, and closes what is open; the next request opens it anew.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redis import Redis, RedisError

from dispatcher.features.web.requests.uploads import remove_old
from dispatcher.memory.day.open_memory import OpenedMemory
from dispatcher.releases.night_command import read_json
from dispatcher.releases.served import Identity, identity_of
from shared.config.settings import Settings
from shared.errors import HmemError, StoreUnavailable
from shared.release.manifest import current_release
from shared.wire import keys
from shared.wire.client import COMMAND, open_redis

#: Seconds between two looks, and after the last request until everything is closed.
LOOK_SECONDS, IDLE_SECONDS = 2.0, 600.0
#: Seconds between two removals of old uploads and exports.
CLEAR_SECONDS = 3600.0
#: The newest nights that are read.
NIGHTS = 30
#: The longest that a request waits for the one before it.
WAIT_SECONDS = 60.0


def _changes(nights: Path) -> tuple[int, ...] | None:
    """What changes when a night begins, ends a step, fails or is done; None if this user may not see it, or there is no night."""
    try:
        runs = [path for path in nights.iterdir() if path.name.isdecimal()]
        newest = max(runs, key=lambda path: int(path.name))
        return nights.stat().st_mtime_ns, newest.stat().st_mtime_ns, len(runs)
    except (OSError, ValueError):
        return None


class Reader:
    """The same doors as the commands': `OpenedMemory` and a Redis client. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.redis: Redis = open_redis(settings.redis_url, COMMAND)
        self._lock = threading.Lock()
        self._memory: OpenedMemory | None = None
        self._opened_with: tuple[Identity | None, object] | None = None
        self._used = 0.0
        self._nights_lock = threading.Lock()
        self._nights: tuple[object, list[dict[str, Any]]] | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    @contextmanager
    def memory(self, *, vectors: bool = False) -> Iterator[OpenedMemory]:
        """With `vectors`, the embedder and the vectors of the release are open, too. StoreUnavailable if the request before it takes too long."""
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise StoreUnavailable("Another page has been reading memory for a minute. Wait a moment, then try again.")
        try:
            self._close_if_outdated()
            if self._memory is None:
                self._opened_with = self._state()
                self._memory = OpenedMemory(self.settings)
            if vectors:
                self._memory.release_or_reason("")  # what needs it says why it is not there
                self._memory.open_vectors()
            yield self._memory
        finally:
            self._used = time.monotonic()
            self._lock.release()

    def nights(self) -> list[dict[str, Any]]:
        """What `hmem-night status --json` prints: once, until a night has done something. NightCommandFailed if it failed."""
        with self._nights_lock:
            seen = _changes(self.settings.hmem_night_dir / "nights")
            if self._nights is None or seen is None or self._nights[0] != seen:
                self._nights = seen, read_json(self.settings, "status", "--json", f"--nights={NIGHTS}")
            return self._nights[1]

    def _state(self) -> tuple[Identity | None, object]:
        """(the current release, the mark of the last forgetting); what cannot be read is None."""
        path, mark = None, None
        with suppress(HmemError, OSError, RedisError):  # each page says what it could not read
            path = current_release(self.settings.hmem_memory_dir)
            mark = self.redis.get(keys.FORGOTTEN)
        return (identity_of(path) if path else None), mark

    def _close_if_outdated(self) -> None:
        idle = time.monotonic() - self._used > IDLE_SECONDS
        if self._memory is not None and (idle or self._state() != self._opened_with):
            self._close()

    def _watch(self) -> None:
        import shared.search.chat_items  # noqa: F401 - numpy takes a quarter of a second, for which the first page of a chat need not wait

        cleared = -CLEAR_SECONDS
        while not self._ended.wait(LOOK_SECONDS):
            if time.monotonic() - cleared > CLEAR_SECONDS:
                cleared = time.monotonic()
                remove_old(self.settings)
            if self._lock.acquire(timeout=LOOK_SECONDS):
                try:
                    self._close_if_outdated()
                finally:
                    self._lock.release()

    def _close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def close(self) -> None:
        self._ended.set()
        with self._lock:
            self._close()
        self.redis.close()
