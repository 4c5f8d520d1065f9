"""From a task to all that it leaves behind.

    forgotten? seen before? cancelled? ─ /memory? ─ session ─ context ─ claude (once more without a lost session) ─ tags ─ Finished

Memory that is missing, broken or slow makes the answer poorer, never absent. An error is answered with a sentence and is not stored
as said: the question alone is.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from uuid import uuid4

import structlog

from dispatcher.answering import memory_command
from dispatcher.answering.ask_claude import Asking
from dispatcher.answering.explanation import why_record, why_text
from dispatcher.answering.outcome import Outcomes, said_at
from dispatcher.answering.retry import keep_trying
from dispatcher.claude.client import ClaudeCli
from dispatcher.claude.reply import Answer
from dispatcher.health.metrics import Metrics
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day import Day
from dispatcher.memory.tombstones import FORGOTTEN, erases
from dispatcher.memory.typed import tags
from dispatcher.memory.typed.actions import later_tags
from dispatcher.prompt.assemble import assemble
from dispatcher.prompt.budget import Context, Said
from dispatcher.queue.cancellation import Run, RunCancelled
from dispatcher.queue.existing import ANY, LOOKS, NO_TURNS, are_own, named, sha1
from dispatcher.queue.refused import USED_ID
from dispatcher.queue.rights import Rights
from dispatcher.queue.tasks import MAX_ATTEMPTS, Begun, Finished, TaskQueue
from dispatcher.releases.served import Memory
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.system.faults import crash_point
from shared.turns.records import RecordRefused, Result, Task, Tombstone

log = structlog.get_logger()

#: How long a task waits for a release that has just been switched to, or for the day's memory after a start.
FRESH_SECONDS = 5.0
#: A lookup is given up this long after its deadline even if a disk hangs.
LOOKUP_SLACK_SECONDS = 1.0

NOTED = "Noted."
AWAY = "Sorry, my notebook does not answer just now. Please try again in a while."
FORGETTING = "have something forgotten"
LATER = "My notebook does not answer just now; I shall see to it as soon as it does."


class Answering:
    """What is needed to answer; one per dispatcher."""

    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        claude: ClaudeCli,
        day: Day | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._outcomes, self._metrics = Outcomes(settings), metrics or Metrics()
        self._settings, self._memory, self._rights = settings, memory, Rights(settings)
        self._day = day or Day(settings, memory)
        self.cache_dropper = CacheDropper(memory, self._day)
        self._remembers = self._day.wanted and settings.memory_tokens > 0
        self._asking = Asking(settings, claude, self._metrics, remembers=self._remembers)

    def close(self) -> None:
        self._asking.close()
        self._day.close()

    def refuse(self, task_id: str, reason: str) -> Result:
        """The signed answer to a task that cannot be read."""
        return self._outcomes.refused(task_id, reason)

    def signed(self, task_id: str, raw: bytes) -> bool:
        """Whether a result is signed for this task."""
        return self._outcomes.signed(task_id, raw)

    def broken(self, task: Task, claimed_at: float) -> Finished:
        """For a task over which we failed ourselves."""
        return self._outcomes.broken(task, claimed_at)

    def look(self, run: Run, existing: bytes) -> None:
        """A result stands there while the task runs: the bot's own ends it, one that nobody has signed is remembered and makes way."""
        if not run.task_id or sha1(existing) == run.forged:
            return
        if self._outcomes.signed(run.task_id, existing):
            run.cancel()
        else:
            log.warning(
                "a result with a wrong signature stands where the answer will go; it makes way", task=run.task_id
            )
            run.forged = sha1(existing)

    async def answer(self, queue: TaskQueue, task: Task, claimed_at: float, run: Run) -> Finished:
        stones = self._stones(task)
        gone, command = erases(stones, task, claimed_at), _command_of(task)
        begun = await self._begin(queue, task, run, stones, with_session=command is None, gone=gone)
        if gone:  # a Redis from before brought it back
            log.warning("a task is not answered: it is forgotten")
            finished = self._outcomes.told(task, FORGOTTEN, error=True)
        elif begun.done is not None and begun.done != task.digest:
            raise RecordRefused(USED_ID)
        elif begun.done or begun.deaths >= MAX_ATTEMPTS:
            log.warning("task not run again", deaths=begun.deaths)
            finished = self._outcomes.not_again(task, claimed_at, begun.deaths)
        elif run.cancelled:
            finished = self._outcomes.cancelled(task, claimed_at, begun)
        elif command:
            finished = await self._command(queue, task, command, claimed_at)
        else:
            finished = await self._conversation(queue, task, claimed_at, begun, run)
        return replace(finished, existing_turns=named(begun.turns))

    def _stones(self, task: Task) -> list[Tombstone]:
        """The chat's tombstones; none where they cannot be read, and then no memory is injected either."""
        try:
            return self._day.forgotten.of(task.chat_id)
        except HmemError as error:
            log.error("what is forgotten cannot be told", reason=str(error))
            return []

    async def _begin(
        self, queue: TaskQueue, task: Task, run: Run, stones: Sequence[Tombstone], *, with_session: bool, gone: bool
    ) -> Begun:
        """What is known of the task; whether its end was asked for before it began. RecordRefused if turns of another one stand there."""
        fresh, lifetime = str(uuid4()) if with_session and not gone else "", self._settings.session_ttl
        if any(stone.erase for stone in stones) and await keep_trying(
            lambda: queue.end_if_forgotten(task.chat_id, stones)
        ):
            log.warning("the conversation so far is ended: it is from before something was forgotten")
        begin = partial(queue.begin, task, fresh, lifetime, stones, replay=self._replays)
        existing_turns, looks = NO_TURNS, 0
        while True:
            forged = run.forged if looks < LOOKS else ANY
            begun = await keep_trying(partial(begin, forged=forged, existing_turns=existing_turns))
            self.cache_dropper.seen = begun.mark
            looks += 1
            run.awaited |= begun.awaited
            if begun.cancelled:
                run.cancel()
            if begun.done is None and named(begun.turns) != existing_turns and not gone:
                if not are_own(task, begun.turns):
                    raise RecordRefused(USED_ID)
                existing_turns = named(begun.turns)  # it was finished before, and that is not known any more
            elif begun.existing and not run.cancelled:
                self.look(run, begun.existing)  # of one that is nobody's: look once more, past it
            else:
                return begun

    async def _conversation(self, queue: TaskQueue, task: Task, claimed_at: float, begun: Begun, run: Run) -> Finished:
        """The path of a message that is for Claude."""
        code = tags.new_code()
        try:
            answer, used, context = await run.while_wanted(
                self._answered(queue, task, begun, code, said_at(task, claimed_at))
            )
        except RunCancelled:
            if run.given_up:
                log.warning(
                    "the bot no longer waits for this answer: it was cancelled there, or took longer than the bot waits",
                    seconds=round(time.monotonic() - run.began),
                )
            return self._outcomes.cancelled(task, claimed_at, begun)
        except OSError as error:  # a full disk, a directory that cannot be made
            answer = Answer("", error=f"a file could not be written ({error.strerror})")
            used, context = begun.session if begun.resume else "", Context("")
        if self._replays:  # the id only marks the conversation, so that /new is seen
            used = begun.session
        finished = self._outcomes.answered(task, claimed_at, answer, begun, used)
        return await self._remembered(queue, replace(finished, why=why_record(context)), task, answer, code)

    async def _answered(
        self, queue: TaskQueue, task: Task, begun: Begun, code: str, at: float
    ) -> tuple[Answer, str, Context]:
        """The answer, the session to go on with ("" for none), and what was injected. A session that is lost is replaced once by a fresh one."""
        session, resume = begun.session, begun.resume and not self._replays
        context = await self._context(task, None if resume else begun.said, session if resume else None)
        asked = str(uuid4()) if self._replays else session
        answer = await self._asking.ask(task, at, context, asked, code, resume=resume)
        if answer.session_lost and resume:
            log.warning("the session cannot be resumed, trying a fresh one", reason=answer.error)
            fresh = str(uuid4())
            said = await keep_trying(lambda: queue.recent(task, self._stones(task)))
            context = await self._context(task, said, None)
            answer = await self._asking.ask(task, at, context, fresh, code, resume=False)
            return answer, fresh if answer.error is None else session, context
        exists = resume or answer.error is None
        return answer, session if exists else "", context

    @property
    def _replays(self) -> bool:
        return self._settings.session_mode == "replay"

    async def _context(self, task: Task, said: list[Said] | None, session: str | None) -> Context:
        """What to inject; nothing if memory is missing, broken or too slow. Without a session to resume, what was said just now comes as text."""
        if self._settings.memory_tokens <= 0:  # nothing is looked up: no thread is needed
            return self._assemble(task, said, session)
        if self.cache_dropper.due:
            await _for_a_while(self.cache_dropper.drop_if_due)
        if self._memory.moved() and not self._memory.refreshing:
            await _for_a_while(self._memory.refresh)  # else the release that is open must do
        if self._day.wanted and not self._day.opened:
            await _for_a_while(self._day.open)  # the first question after a start
        try:
            async with asyncio.timeout(2 * self._settings.memory_deadline_ms / 1000 + LOOKUP_SLACK_SECONDS):
                return await asyncio.to_thread(self._assemble, task, said, session)
        except TimeoutError:
            reason = "memory did not answer in time"
        except Exception as error:  # noqa: BLE001 - no memory is not no service
            reason = f"memory failed: {error!r}"
        log.error("answering without memory", reason=reason)
        return Context("", degraded=[reason])

    def _assemble(self, task: Task, said: list[Said] | None, session: str | None) -> Context:
        with self._memory.reading() as release:
            context = assemble(
                release,
                task.chat_id,
                task.message,
                self._settings,
                said,
                self._memory.why_none,
                self._day,
                session,
            )
        self._metrics.context(context)
        log.info(
            "memory injected",
            release=context.release_run,
            tokens=context.tokens,
            hits=len(context.used),
            nothing_why=context.nothing_why,
            degraded=context.degraded or None,
            ms=round(context.ms, 1),
        )
        return context

    async def _remembered(
        self, queue: TaskQueue, finished: Finished, task: Task, answer: Answer, code: str
    ) -> Finished:
        """The same with the tags of the answer acted on, taken out of what is sent and stored, and what came of them said."""
        if answer.error is not None or not self._remembers:
            return finished
        parsed = tags.parse(answer.text, code)
        if parsed.strange:
            log.warning("tags without the code of their request are left as text", count=parsed.strange)
        if not parsed.tags:
            return finished
        said_at = finished.turns[-1].timestamp
        allowed, refusal = self._allowed(task, parsed.tags)
        notes, later, forgotten = list[str](), b"", list[str]()
        try:
            if any(tag.kind is tags.TagKind.FORGET for tag in allowed):
                await self._stored(queue, task)
            acted = await asyncio.to_thread(self._day.act, task, finished.session, allowed, said_at)
            notes, forgotten = acted.said, acted.forgotten
        except Exception as error:  # noqa: BLE001 - the answer must go out; the dreamer acts on what is kept
            log.error("tags are kept for later", reason=str(error))
            later = later_tags(task, finished.session, allowed, said_at)
            if any(tag.kind in (tags.TagKind.DONE, tags.TagKind.FORGET) for tag in allowed):
                notes = [LATER]
        notes += filter(None, [refusal])
        crash_point("answering:acted")
        text = parsed.text if parsed.text.strip() else NOTED
        told = notes and not parsed.text.strip() and notes[0].startswith("Noted;")  # once is enough
        output = "\n\n".join(notes if told else [text, *notes])
        turns = [replace(turn, content=text) if turn.role == "asst" else turn for turn in finished.turns]
        result = self._outcomes.sign(task.task_id, output, finished.result.usage)
        return replace(finished, result=result, turns=turns, tags=later, forget=bool(forgotten))

    def _allowed(self, task: Task, given: Sequence[tags.Tag]) -> tuple[list[tags.Tag], str]:
        """The tags that may be acted on for who asked, and why the others may not."""
        refusal = self._rights.refusal(FORGETTING, task.chat_id, task.user_id)
        allowed = [tag for tag in given if not (refusal and tag.kind is tags.TagKind.FORGET)]
        return allowed, refusal if len(allowed) < len(given) else ""

    async def _stored(self, queue: TaskQueue, task: Task) -> None:
        """Bring what was said a moment ago into the store: what is forgotten is looked for there, and one of these may say it again."""
        waiting = await keep_trying(lambda: queue.waiting(task))
        await asyncio.to_thread(self._day.store_turns, waiting)

    async def _command(
        self, queue: TaskQueue, task: Task, command: memory_command.Command, claimed_at: float
    ) -> Finished:
        """`/memory`: answered here, and not stored as said."""
        try:
            output, forgotten = await self._obeyed(queue, task, command, claimed_at)
        except HmemError as error:
            log.error("a command could not be obeyed", reason=str(error))
            return self._outcomes.told(task, AWAY, error=True)
        return self._outcomes.told(task, output, forget=forgotten)

    async def _obeyed(
        self, queue: TaskQueue, task: Task, command: memory_command.Command, now: float
    ) -> tuple[str, bool]:
        """What to answer, and whether something was forgotten."""
        if command.name == "usage":
            return memory_command.USAGE, False
        if command.name == "why":
            return why_text(await keep_trying(lambda: queue.why(task))), False
        if not self._remembers:
            return "Nothing is kept here: MEDIUM_URL or MEMORY_TOKENS switches it off.", False
        if command.name == "show":
            return await asyncio.to_thread(self._day.listing, task.chat_id, now), False
        if command.name == "forget" and (refusal := self._rights.refusal(FORGETTING, task.chat_id, task.user_id)):
            return refusal, False
        if command.name == "add":
            outcome = await asyncio.to_thread(self._day.add, task, command.text, now)
        else:
            await self._stored(queue, task)
            outcome = await asyncio.to_thread(self._day.forget_number, task, command.number, now)
        return outcome.say, bool(outcome.forgotten)


def _command_of(task: Task) -> memory_command.Command | None:
    """A command that somebody forwards is none of his."""
    return None if task.origin.forward else memory_command.parse(task.message)


async def _for_a_while(call: Callable[[], None]) -> None:
    """Wait for it, but not for long: then it goes on by itself."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FRESH_SECONDS):
            await asyncio.to_thread(call)
