"""A message that is for Claude: context, session, answer.

    context ─ claude (once more without a lost session) ─ tags ─ Finished

Memory that is missing, broken or slow makes the answer poorer, but there is always an answer. An error is answered with a sentence that is not
stored: only the user's turn is.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from uuid import uuid4

import structlog

from dispatcher.answering.ask_claude import ClaudeCaller
from dispatcher.answering.commands.explanation import why_record
from dispatcher.answering.hooks import context_composed
from dispatcher.answering.media.corrections import Corrections, corrected, header_line
from dispatcher.answering.media.made_files import Made, MadeFiles
from dispatcher.answering.media.reading import MediaReader, Read
from dispatcher.answering.results import ResultBuilder, said_at
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.tag_actions import TagActions
from dispatcher.claude.reply import Answer
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.session_history import HistoryEntry
from dispatcher.memory.typed import tags
from dispatcher.prompt.assemble import PromptRequest, assemble
from dispatcher.prompt.context import Context
from dispatcher.queue.cancellation import Run, RunCancelled
from dispatcher.queue.tasks import Begun, Finished, TaskQueue
from dispatcher.releases.served import ServedRelease
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.hooks import Hooks
from shared.system.faults import crash_point
from shared.text.translations import tr
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


class _Answered(NamedTuple):
    """An answer, the session to go on with ("" for none), and what was injected."""

    answer: Answer
    session: str
    context: Context


class ConversationAnswerer:
    """One per dispatcher. `replays`: no session is resumed, the conversation so far comes as text."""

    def __init__(
        self,
        queue: TaskQueue,
        claude: ClaudeCaller,
        contexts: MessageContexts,
        tag_actions: TagActions,
        results: ResultBuilder,
        media: MediaReader,
        corrections: Corrections,
        made: MadeFiles,
        *,
        replays: bool,
    ) -> None:
        self._queue, self._claude, self._contexts = queue, claude, contexts
        self._tags, self._results, self._media, self._replays = tag_actions, results, media, replays
        self._corrections, self._made = corrections, made

    async def answer(self, task: Task, started: float, begun: Begun, run: Run) -> Finished:
        """What the task leaves behind; a cancelled result if it is cancelled while Claude runs."""
        code, original, read, earlier = tags.new_code(), task, Read(task), None
        try:
            if task.media:
                read = await run.while_wanted(self._media.read(task))
                task = read.task
            if read.refusal:
                return self._results.refused_media(original, started, read.refusal)
            earlier = await self._corrections.of(task, self._contexts.tombstones(task))
            if earlier is not None:
                read.lines.append(header_line(earlier))
            await self._made.note(task.chat_id, task.task_id)
            asking = self._ask(read, begun, code, said_at(task, started))
            answer, session, context = await run.while_wanted(asking)
        except RunCancelled:
            if run.abandoned:
                log.warning(
                    "the bot no longer waits for this answer: it was cancelled there, or the bot timed out",
                    seconds=round(time.monotonic() - run.began),
                )
            return self._results.cancelled(original, started, begun)
        except OSError as error:  # a full disk, a directory that cannot be made
            answer = Answer("", error=tr("a file could not be written ({reason})").format(reason=error.strerror))
            session, context = begun.session if begun.resume else "", Context("")
        if self._replays:  # the id only marks the conversation, so that /new is noticed
            session = begun.session
        finished = self._results.answered(task, started, answer, begun, session)
        made = await self._made.made(task.chat_id, task.task_id) if answer.error is None else Made()
        crash_point("answering:files-made")
        finished = await self._tags.apply(
            replace(finished, why=why_record(context, task.task_id, time.time())), answer, code, read
        )
        finished = self._results.with_files(finished, made)
        new = corrected(earlier, task.said) if earlier else None
        return replace(self._results.below(finished, read.shown), task=original, corrected=new)

    async def _ask(self, read: Read, begun: Begun, code: str, at: float) -> _Answered:
        """Ask Claude; a lost session is replaced once by a new one."""
        task = read.task
        session, resume = begun.session, begun.resume and not self._replays
        context = await self._contexts.of(task, None if resume else begun.history, session if resume else None)
        used = str(uuid4()) if self._replays else session
        answer = await self._claude.ask(read, at, context, used, code, resume=resume)
        if answer.session_lost and resume:
            log.warning("the session cannot be resumed, trying a new one", reason=answer.error)
            fresh = str(uuid4())
            history = await keep_trying(lambda: self._queue.recent(task, self._contexts.tombstones(task)))
            context = await self._contexts.of(task, history, None)
            answer = await self._claude.ask(read, at, context, fresh, code, resume=False)
            return _Answered(answer, fresh if answer.error is None else session, context)
        exists = resume or answer.error is None
        return _Answered(answer, session if exists else "", context)


async def _for_a_while(call: Callable[[], None]) -> None:
    """Run it in a thread and wait for at most FRESH_SECONDS; after that it continues in the background."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FRESH_SECONDS):
            await asyncio.to_thread(call)
