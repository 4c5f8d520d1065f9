"""The journal's files, as one host's processes write them together: each append under a lock, with the next number, made durable at once.

The dispatcher appends through a thread that writes whatever has come in the meantime with one fsync (group commit), so no answer waits for the disk.
What cannot be written is dropped and counted: the next look at Redis finds that it is missing here, and appends it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import structlog

from dispatcher.second_copy.live import NewEntry, live_items
from dispatcher.second_copy.store_copy import copied, forget_aside
from shared.delivery.journal.entries import JournalEntry, line_of
from shared.delivery.journal.files import FORMAT, ID, end_of, journal_id, segment_name, segments
from shared.delivery.journal.state import JournalState, read_journal, read_segment
from shared.system.faults import crash_point
from shared.system.files import atomic_writer, fsync_dir, locked_file, write_atomic
from shared.wire.json import dumps

log = structlog.get_logger()

LOCK = "lock"


class DayJournal:
    """Thread-safe. OSError if the directory cannot be used, except from `append`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mutex, self._wake = threading.Lock(), threading.Event()
        self._pending: list[NewEntry] = []
        self._writing = 0
        self._oldest: float | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._reading = threading.RLock()
        self._state = JournalState(light=True)
        self._read: tuple[str, int] = ("", 0)  # segment and offset up to which the state follows it
        self.dropped = 0  # entries that could not be written since the last whole look
        self.failing: tuple[float, str] | None = None  # since when, and why

    def create(self) -> None:
        """Make it a journal, if it is none."""
        with locked_file(self.folder / LOCK):
            if journal_id(self.folder) is None:
                write_atomic(self.folder / ID, dumps({"format": FORMAT, "journal": uuid4().hex}))

    @property
    def exists(self) -> bool:
        return journal_id(self.folder) is not None

    # Appending.

    def append(self, entries: Iterable[NewEntry]) -> None:
        """Durable soon after; with no thread (`start`), when it returns. Raises nothing."""
        with self._mutex:
            self._pending.extend(entries)
            if self._pending and self._oldest is None:
                self._oldest = self._pending[0].at
        if self._thread is None:
            self._write_pending()
        else:
            self._wake.set()

    def start(self) -> None:
        """From now on a thread writes."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write what is pending, and end."""
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10)

    def flush(self, seconds: float = 5.0) -> bool:
        """Wait until nothing is pending; False if that takes longer."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with self._mutex:
                if not self._pending and not self._writing:
                    return True
            self._wake.set()
            time.sleep(0.002)
        return False

    @property
    def behind(self) -> tuple[int, float | None]:
        """Entries that are not durable, and the time of the oldest one."""
        with self._mutex:
            count = len(self._pending) + self._writing + self.dropped
            since = self.failing[0] if self.failing else None
            return count, min(filter(None, (self._oldest, since)), default=None)

    def _run(self) -> None:
        while not (self._closing and not self._pending):
            self._wake.wait(1.0)
            self._wake.clear()
            self._write_pending()

    def _write_pending(self) -> None:
        with self._mutex:
            batch, self._pending = self._pending, []
            self._writing = len(batch)
        if not batch:
            return
        try:
            with self.alone() as write:
                write(batch)
            failed = None
        except Exception as error:  # noqa: BLE001 - whatever it is, an answer must not fail over it
            failed = str(error) or repr(error)
        with self._mutex:
            self._writing = 0
            if not self._pending:
                self._oldest = None
            if failed is None:
                self.failing = None if not self.dropped else self.failing
                return
            self.dropped += len(batch)
            if self.failing is None:
                log.error("the journal cannot be written", folder=str(self.folder), error=failed)
                self.failing = (batch[0].at, failed)

    def whole_look_done(self, dropped: int) -> None:
        """Everything that was dropped before the look (so many entries) has been found again; is that durable, and nothing was dropped since?"""
        with self._mutex:
            if self.dropped == dropped and not self._pending and not self._writing:
                self.dropped, self.failing = 0, None

    @contextmanager
    def alone(self) -> Iterator[Callable[[Sequence[NewEntry]], None]]:
        """No other process appends meanwhile; the function appends, durably."""
        if not self.exists:
            raise OSError(f"{self.folder} has no journal")
        with locked_file(self.folder / LOCK):
            yield self._write

    def _write(self, batch: Sequence[NewEntry]) -> None:
        found = segments(self.folder)
        path = found[-1] if found else self.folder / segment_name(1)
        number, whole = end_of(path) if found else (0, True)
        lines = [] if whole else [b"\n"]  # a torn line must not swallow the next one
        for place, one in enumerate(batch, start=number + 1):
            lines.append(line_of(JournalEntry(place, one.at, one.kind, one.chat, one.data)))
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            content = memoryview(b"".join(lines))
            while content:
                content = content[os.write(descriptor, content) :]
            crash_point("journal:written")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not found:
            fsync_dir(self.folder)

    # Reading.

    def refresh(self) -> JournalState:
        """The state of turns (by SHA-1), tasks, keys and tombstones after all that is written by now, by any process."""
        with self._reading:
            name, offset = self._read
            found = segments(self.folder)
            if not found or found[0].name != name or found[-1].name != name:
                self._state, offset = JournalState(light=True, journal=journal_id(self.folder)), 0
            for path in found:
                offset = read_segment(self._state, path, offset if len(found) == 1 else 0)
            self._read = (found[-1].name if len(found) == 1 else "", offset)
            return self._state

    def whole(self) -> JournalState:
        """The same with all values, read anew."""
        return read_journal(self.folder)

    def compact(self, *, change: Callable[[NewEntry], NewEntry | None] = lambda one: one) -> int:
        """Rewrite it with what still counts: without flushed, finished and forgotten, and without changes that the store's copy has.

        `change` returns an entry as it is to stay, None to leave it out; how many it did not leave as they were.
        """
        with locked_file(self.folder / LOCK):
            old = segments(self.folder)
            whole = read_journal(self.folder)
            live = [(one, change(one)) for one in live_items(whole, copied(self.folder), time.time())]
            kept = [now for _, now in live if now is not None]
            new = self.folder / segment_name(whole.last + 1)
            with atomic_writer(new) as handle:
                for number, one in enumerate(kept, start=whole.last + 1):
                    handle.write(line_of(JournalEntry(number, one.at, one.kind, one.chat, one.data)))
            crash_point("journal:rewritten")
            for path in old:
                if path != new:
                    path.unlink(missing_ok=True)
            fsync_dir(self.folder)
            forget_aside(self.folder, whole.tombstones.values())
        return sum(now is not before for before, now in live)

    @property
    def bytes(self) -> int:
        with suppress(OSError):
            return sum(path.stat().st_size for path in segments(self.folder))
        return 0
