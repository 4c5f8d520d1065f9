"""The release that this dispatcher serves: opened, reopened when `current` moves, closed when its last reader is done.

A lookup finishes on the release it started with. A new release is opened completely, in the background, before it replaces the old one; only the
very first one serves keywords and summaries immediately, and vectors as soon as they are loaded. If a release cannot be opened, the old one stays
in use, and the error is logged once; a release whose vectors crash the process is served without them (crash_guard.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from dispatcher.releases.crash_guard import forget_gone, open_vectors
from shared.config.settings import Settings
from shared.errors import HmemError, ReleaseRefused
from shared.release.manifest import current_release
from shared.search.recall import OpenRelease
from shared.text.logs import Logger

log = Logger()


#: A release directory and its inode: a run that is published again has the same path, but is another directory.
Identity = tuple[Path, int]
#: Returns the release to read, open while it is being read; None if there is none.
ReadRelease = Callable[[], AbstractContextManager[OpenRelease | None]]


def identity_of(path: Path) -> Identity:
    """OSError if it does not exist."""
    return path, path.stat().st_ino


class _Counted:
    """An open release and the number of its readers."""

    def __init__(self, release: OpenRelease) -> None:
        self.release = release
        self.identity = identity_of(release.path)
        self.readers = 0
        self.retired = False


class ServedRelease:
    """Thread-safe. `refresh` is slow and belongs in a thread; `reading` never waits for it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._current: _Counted | None = None
        self._refused: Identity | None = None
        self.no_release_reason: str | None = None  # why the target of `current` is not served
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()

    @property
    def served_run(self) -> int | None:
        with self._lock:
            return self._current.release.run if self._current else None

    @property
    def refreshing(self) -> bool:
        """Whether a release is being opened now."""
        return self._refreshing.locked()

    def moved(self) -> bool:
        """Whether `current` points to another release than the served one: one readlink."""
        try:
            target = current_release(self._settings.hmem_memory_dir)
            return target is not None and identity_of(target) not in (self._served(), self._refused)
        except (HmemError, OSError):
            return False

    def refresh(self) -> None:
        """Serve the target of `current`. Errors are logged: old memory is better than none, and answers work without memory."""
        with self._refreshing:
            try:
                target = current_release(self._settings.hmem_memory_dir)
                if target is None or identity_of(target) in (self._served(), self._refused):
                    return
                self._open(target)
            except (HmemError, OSError) as error:
                if self._refused is None:
                    log.error("memory cannot be opened", error=str(error))
                self.no_release_reason = str(error)
                self._refused = (self._settings.hmem_memory_dir / "current", 0)

    def reopen(self) -> None:
        """Open the served release again, with empty caches; slow, call it in a thread. If that fails, nothing is served until `retry`."""
        with self._refreshing:
            with self._lock:
                before = self._current
            if before is None:
                return
            try:
                self._open(before.release.path)
            except (HmemError, OSError) as error:
                log.error("memory cannot be opened", error=str(error))
            with self._lock:
                same = self._current is before
            if same:
                self._swap(None)

    def retry(self) -> None:
        """Try again what could not be opened (Ollama or a disk was unavailable); slow, call it in a thread."""
        self._refused = None
        with self.reading() as release:
            if release is not None and release.vectors_missing:
                open_vectors(self._settings, release)
                if release.vectors_missing is None:
                    log.info("vector search works again", run=release.run)

    def _open(self, target: Path) -> None:
        try:
            release = OpenRelease(self._settings, target)
            if release.text_missing:
                log.error("a release without its texts", release=release.run, error=release.text_missing)
                if self._current is not None:  # which is better than a summary
                    release.close()
                    raise ReleaseRefused(release.text_missing)
        except HmemError as error:
            self._refused, self.no_release_reason = identity_of(target), str(error)
            log.error("release refused", release=target.name, error=str(error))
            return
        if self._current is None:
            self._swap(release)
            open_vectors(self._settings, release)
        else:
            open_vectors(self._settings, release)
            self._swap(release)
        self._refused = self.no_release_reason = None
        forget_gone(self._settings)
        report = log.warning if release.has_vectors and release.vectors_missing else log.info
        report("serving release", run=release.run, vectors=release.vectors_missing or "yes")

    def _served(self) -> Identity | None:
        with self._lock:
            return self._current.identity if self._current else None

    def _swap(self, release: OpenRelease | None) -> None:
        with self._lock:
            old, self._current = self._current, _Counted(release) if release else None
            if old:
                old.retired = True
            idle = old is not None and old.readers == 0
        if idle and old:
            old.release.close()

    @contextmanager
    def reading(self) -> Iterator[OpenRelease | None]:
        """The served release, open while it is being read; None if there is none."""
        with self._lock:
            counted = self._current
            if counted:
                counted.readers += 1
        try:
            yield counted.release if counted else None
        finally:
            if counted:
                self._leave(counted)

    def _leave(self, counted: _Counted) -> None:
        with self._lock:
            counted.readers -= 1
            last = counted.retired and counted.readers == 0
        if last:
            counted.release.close()

    def close(self) -> None:
        self._swap(None)
