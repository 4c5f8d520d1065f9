"""What memory adds to each message: read within a deadline, and nothing where memory is missing, broken or slow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from dispatcher.answering.hooks import context_composed
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.session_history import HistoryEntry
from dispatcher.prompt.assemble import PromptRequest, assemble
from dispatcher.prompt.context import Context
from dispatcher.releases.served import ServedRelease
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.hooks import Hooks
from shared.turns.records import Task, Tombstone

log = structlog.get_logger()

#: How long a task waits for a new release to open, or for the day's memory after a start.
FRESH_SECONDS = 5.0
#: A lookup is abandoned this long after its deadline even if a disk hangs.
LOOKUP_SLACK_SECONDS = 1.0


class MessageContexts:
    """What memory adds to each message; one per dispatcher."""

    def __init__(
        self,
        settings: Settings,
        day: DayMemory,
        served: ServedRelease,
        cache_dropper: CacheDropper,
        hooks: Hooks,
    ) -> None:
        self._settings, self._day, self._served = settings, day, served
        self._cache_dropper, self._hooks = cache_dropper, hooks

    def tombstones(self, task: Task) -> list[Tombstone]:
        """The chat's tombstones; none where they cannot be read, and then no memory is injected either."""
        try:
            return self._day.forgotten.of(task.chat_id)
        except HmemError as error:
            log.error("the tombstones cannot be read", reason=str(error))
            return []

    async def of(self, task: Task, history: list[HistoryEntry] | None, session: str | None) -> Context:
        """What to inject; nothing if memory is missing, broken or too slow. Without a session to resume, the history comes as text."""
        request = PromptRequest(task.chat_id, task.message, history, session, user_id=task.user_id, name=task.name)
        if self._settings.memory_tokens <= 0:  # nothing is looked up: no thread is needed
            return self._assemble(request)
        with self._day.questions.reading():
            return await self._read(request)

    async def _read(self, request: PromptRequest) -> Context:
        if self._cache_dropper.due:
            await _for_a_while(self._cache_dropper.drop_if_due)
        if self._served.moved() and (self._served.served_run is None or not self._served.refreshing):
            await _for_a_while(self._served.refresh)  # while another one is being opened, the open release is used
        if self._day.wanted and not self._day.opened:
            await _for_a_while(self._day.open)  # the first question after a start
        try:
            async with asyncio.timeout(2 * self._settings.memory_deadline_ms / 1000 + LOOKUP_SLACK_SECONDS):
                return await asyncio.to_thread(self._assemble, request)
        except TimeoutError:
            reason = "memory did not answer in time"
        except Exception as error:  # noqa: BLE001 - without memory there must still be an answer
            reason = f"memory failed: {error!r}"
        log.error("answering without memory", reason=reason)
        return Context("", degraded=[reason])

    def _assemble(self, request: PromptRequest) -> Context:
        with self._served.reading() as release:
            context = assemble(request, self._settings, release, self._day, self._served.no_release_reason)
        self._hooks.ask(context_composed, context=context)
        log.info(
            "memory injected",
            release=context.release_run,
            tokens=context.tokens,
            hits=len(context.used),
            nothing_why=context.no_recall_reason,
            degraded=context.degraded or None,
            ms=round(context.ms, 1),
        )
        return context


async def _for_a_while(call: Callable[[], None]) -> None:
    """Run it in a thread and wait for at most FRESH_SECONDS; after that it continues in the background."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FRESH_SECONDS):
            await asyncio.to_thread(call)
