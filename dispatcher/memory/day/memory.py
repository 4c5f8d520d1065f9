"""The entry point to the day's memory: one object for each dispatcher, command or tool server, cheap until it is used.

It has the day store, the day's embedder and the tombstone filter. Each of them may be unavailable: then `degraded` has the reason, and only the
release is searched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dispatcher.memory.day.parts import DayParts
from dispatcher.memory.day.read_for_prompt import ContextReader, DayContext, PromptRequest, in_time
from dispatcher.memory.day.requests import MemoryRequests
from dispatcher.memory.session_summary import SummaryWriter
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.text.format import tokens
from shared.text.logs import Logger

if TYPE_CHECKING:
    from dispatcher.memory.typed.acting_on_tags import TagActing
    from dispatcher.releases.served import ReadRelease
    from shared.turns.records import Turn

log = Logger()

#: A chat id that no chat can have: the records refuse it.
NOBODY = "0"
#: Seconds without a question from which on nobody is about to ask: from a full queue the next one comes within some milliseconds.
QUIET_SECONDS = 0.1

#: How long the record of an action is stored: as long as its task may be repeated. Seconds.
ACTIONS_KEPT_SECONDS = 8 * 86_400.0
#: Memories that are embedded before it is looked whether somebody asks.
MEMORIES_AT_ONCE = 8


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


class DayUpkeep:
    """Thread-safe. StoreUnavailable if the store cannot be reached; every method may be repeated."""

    def __init__(self, day: DayParts, writer: SummaryWriter | None) -> None:
        self._day, self._writer = day, writer

    def store_turns(self, turns: Sequence[Turn]) -> None:
        """Store turns in the day store, except forgotten ones (even if that happens meanwhile); their vectors come later, by `embed_missing`."""
        remaining = [turn for turn in turns if not self._day.forgotten.covers(turn)]
        self._day.turns.store(remaining)
        for turn in remaining:
            if self._day.forgotten.covers(turn):
                self._day.forget_copies(turn.chat_id, [turn.turn_id])

    def embed_missing(self, limit: int, may_go_on: Callable[[], bool] = lambda: True) -> None:
        """Embed what has no vector of the current model, some at a time, as long as `may_go_on`."""
        for _ in range(0, limit, MEMORIES_AT_ONCE):
            if not may_go_on():
                return
            if not self._day.remembering.embed_missing(MEMORIES_AT_ONCE):
                break
        self._day.day_turns.embed_missing(limit, may_go_on)

    def summarise_session(self, chat_id: str, session: str, turns: Sequence[Turn]) -> None:
        """Store the session's summary, once; it replaces one that was made while the session was still going on."""
        from dispatcher.memory.store.summaries import SessionSummary

        text = (self._writer or SummaryWriter(self._day.settings)).write(turns)
        times, turn_ids = [turn.timestamp for turn in turns], tuple(turn.turn_id for turn in turns)
        size = sum(tokens(turn.content) for turn in turns)
        summaries = self._day.summaries
        summaries.store(
            SessionSummary(chat_id, session, text, min(times), max(times), time.time(), turn_ids, tokens=size)
        )
        if any(self._day.forgotten.covers(turn) for turn in turns):  # while it was written
            self._day.forget_copies(chat_id, turn_ids)
            return
        earlier = [one for one in summaries.containing(chat_id, turn_ids[:1]) if one.session == session]
        summaries.remove(chat_id, [one.summary_id for one in earlier if set(one.turn_ids) < set(turn_ids)])

    def prune(self, before: float) -> None:
        """Remove older turns that are in the current release, and records of actions whose task cannot be repeated."""
        self._day.actions.prune(time.time() - ACTIONS_KEPT_SECONDS)
        with self._day.read_release() as release:
            if release is not None:
                self._day.turns.prune(before, release.holds)


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
