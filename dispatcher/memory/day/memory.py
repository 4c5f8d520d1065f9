"""The entry point to the day's memory: one object for each dispatcher, command or tool server, cheap until it is used.

It has the day store, the day's embedder and the tombstone filter. Each of them may be unavailable: then `degraded` has the reason, and only the
release is searched.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import structlog

from dispatcher.memory.day.context import ContextReader, DayContext, PromptRequest, in_time
from dispatcher.memory.day.requests import MemoryRequests
from dispatcher.memory.day.stores import DayStores
from dispatcher.memory.day.upkeep import DayUpkeep
from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.relevance import says_again
from dispatcher.memory.tombstones import Forgotten
from shared.config.settings import Settings
from shared.errors import HmemError

if TYPE_CHECKING:
    from dispatcher.memory.session_summary import SummaryWriter
    from dispatcher.memory.today import DayTurns
    from dispatcher.memory.typed.acting_on_tags import TagActing
    from dispatcher.memory.typed.memories import Remembering
    from dispatcher.memory.withholding import TurnTexts
    from dispatcher.releases.served import ReadRelease
    from shared.search.day_items import DayItems
    from shared.search.recall import DayRecall, OpenRelease
    from shared.search.types import Query, Recalled

log = structlog.get_logger()

ZoneOf = Callable[[str], ZoneInfo]

#: A chat id that no chat can have: the records refuse it.
NOBODY = "0"
#: How many turns are checked for repetitions when a memory is forgotten.
REPETITIONS = 200


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


class DayMemory(DayStores):
    """Thread-safe. `read_release` returns the release to read together with the day, `writer` writes session summaries."""

    def __init__(self, settings: Settings, read_release: ReadRelease, writer: SummaryWriter | None = None) -> None:
        super().__init__(settings)
        self.embedder = DayEmbedder(settings)
        self.forgotten = Forgotten(settings.hmem_state_dir)
        self.questions = Questions()
        self.opened = False  # or tried to
        #: A chat's time zone; a dispatcher replaces it, because a chat may choose its own (/timezone).
        self.zone_of: ZoneOf = lambda _: settings.timezone
        self._read_release = read_release
        self._pool = ThreadPoolExecutor(settings.max_concurrent_tasks, thread_name_prefix="day")
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="counting")
        self.requests, self.upkeep = MemoryRequests(self), DayUpkeep(self, read_release, writer)
        self._reader = ContextReader(self, self._counting)

    @property
    def wanted(self) -> bool:
        return self.settings.has_day_store

    # Built on the tables; `renew` drops it.

    @cached_property
    def remembering(self) -> Remembering:
        from dispatcher.memory.typed.memories import Remembering

        return Remembering(self.memories, self.embedder, self.forgotten)

    @cached_property
    def recall(self) -> DayRecall:
        from shared.search.recall import DayRecall

        return DayRecall(self.settings)

    @cached_property
    def day_turns(self) -> DayTurns:
        from dispatcher.memory.today import DayTurns

        return DayTurns(self.settings, self.embedder, self.turns, self.summaries, self.recall)

    @cached_property
    def turn_texts(self) -> TurnTexts:
        from dispatcher.memory.withholding import TurnTexts

        return TurnTexts(self.turns, self._read_release)

    @cached_property
    def acting(self) -> TagActing:
        from dispatcher.memory.typed.acting_on_tags import TagActing

        return TagActing(
            self.memories,
            self.actions,
            self.remembering,
            self.forgotten,
            lambda chat_id: self.zone_of(chat_id),
            self.repeating,
            self.turn_texts,
            self.schedules,
        )

    # Opening and closing.

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
        if "recall" in self.__dict__:
            self.recall.close()
        super().close()
        self.embedder.close()

    def renew(self) -> None:
        """Drop everything that was read or searched so far. Running reads finish with what they started with."""
        for name in ("remembering", "recall", "day_turns", "turn_texts", "acting"):
            self.__dict__.pop(name, None)  # each is built on the ones before it
        self.embedder.renew()
        super().close()

    # Reads for prompts and searches.

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

    def items(self, chat_id: str) -> DayItems | None:
        """The chat's turns of the day, and summaries that became searchable; the same object until something changes."""
        return self.day_turns.today(chat_id).items

    def search(self, release: OpenRelease | None, query: Query) -> Recalled:
        """Hits of the release, if there is one, and of the query's day."""
        from shared.search.types import Recalled

        if release is None and not query.day:
            return Recalled()
        embed_query = None if self.settings.without_vectors else self.embedder.query
        return (release or self.recall).recall(query, embed_query)

    def repeating(self, chat_id: str, text: str) -> list[str]:
        """Turns of release and day that repeat a memory, as far as a search for it finds them."""
        from shared.search.types import Query

        query = Query(chat_id, text, REPETITIONS, day=self.items(chat_id))
        with self._read_release() as release:
            hits = self.search(release, query).hits
        again = [hit for hit in hits if any(says_again(text, saying) for saying in hit.chunk.sayings)]
        return [one for hit in again for one in (*hit.chunk.turn_ids, *hit.also)]
