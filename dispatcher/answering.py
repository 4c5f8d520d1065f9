"""From a task to all that it leaves behind.

    seen before? ─ /memory? ─ session ─ context ─ claude (once more without a lost session) ─ tags ─ Finished

Memory that is missing, broken or slow makes the answer poorer, never absent. An error is answered with a sentence and is not stored
as said: the question alone is.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import redis
import structlog
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential

from dispatcher import commands, tags
from dispatcher.acting import later_tags
from dispatcher.assembling import assemble
from dispatcher.claude import Answer, ClaudeCli, Question
from dispatcher.context import Context, Said
from dispatcher.day import Day
from dispatcher.memory import Memory
from dispatcher.tasks import MAX_ATTEMPTS, Finished, TaskQueue
from shared.errors import HmemError, SettingsError
from shared.files import PrivateDir, make_dir, safe_name, write_atomic
from shared.records import RecordRefused, Result, Task, Turn, dumps
from shared.settings import Settings
from shared.text import one_line, shorten

log = structlog.get_logger()
Value = TypeVar("Value")

#: How long a task waits for a release that has just been switched to, or for the day's memory after a start.
FRESH_SECONDS = 5.0
#: A lookup is given up this long after its deadline even if a disk hangs.
LOOKUP_SLACK_SECONDS = 1.0

#: Characters of a recalled turn that `/memory why` can show.
WHY_CHARACTERS = 200
#: How far another host's clock may be ahead.
CLOCK_SLACK_SECONDS = 300.0

APOLOGY = "Sorry, I could not answer that: {reason}. Please try again."
POISON = "Sorry, this message ended my process {count} times, so I have set it aside. Please put it differently."
REFUSED = "Sorry, this request could not be read: {reason}."
NOTED = "Noted."
AWAY = "Sorry, my notebook does not answer just now. Please try again in a while."
LATER = "My notebook does not answer just now; I shall see to it as soon as it does."
#: A session id that no session has: nothing that depends on the session is written.
NO_SESSION = "-"


class Answering:
    """What is needed to answer; one per dispatcher."""

    def __init__(self, settings: Settings, memory: Memory, claude: ClaudeCli, day: Day | None = None) -> None:
        if settings.result_hmac_key is None:
            raise SettingsError(
                "RESULT_HMAC_KEY is not set. Set the secret that the bot verifies results with (the same on both)."
            )
        self._settings, self._memory, self._claude = settings, memory, claude
        self._day = day or Day(settings, memory)
        self._secret = settings.result_hmac_key.get_secret_value()
        self._base_prompt = _base_prompt(settings)
        self._remembers = self._day.wanted and settings.memory_tokens > 0
        self._prompts = PrivateDir(settings.hmem_state_dir / "prompts")

    def close(self) -> None:
        self._prompts.remove()
        self._day.close()

    def refuse(self, task_id: str, reason: str) -> Result:
        """The signed answer to a task that cannot be read."""
        return self._sign(task_id, REFUSED.format(reason=reason))

    async def answer(self, queue: TaskQueue, task: Task, claimed_at: float) -> Finished:
        done, deaths = await keep_trying(lambda: queue.state(task))
        if done is not None and done != task.digest:
            raise RecordRefused("its task_id was used before, for another message")
        if done or deaths >= MAX_ATTEMPTS:
            return self._not_again(task, claimed_at, deaths)
        if command := commands.parse(task.message):
            return await self._command(queue, task, command, claimed_at)
        session, resume = await self._session(queue, task)
        try:
            answer, used, context = await self._answered(queue, task, session, resume=resume)
        except OSError as error:  # a full disk, a directory that cannot be made
            answer = Answer("", error=f"a file could not be written ({error.strerror})")
            used, context = session if resume else "", Context("")
        if self._replays:  # the id only marks the conversation, so that /new is seen
            used = session
        finished = self._finished(task, claimed_at, answer, session_was=session, session=used)
        return await self._remembered(queue, replace(finished, why=_why(context)), task, answer)

    async def _answered(
        self, queue: TaskQueue, task: Task, session: str, *, resume: bool
    ) -> tuple[Answer, str, Context]:
        """The answer, the session to go on with ("" for none), and what was injected. A session that is lost is replaced once by a fresh one."""
        resume = resume and not self._replays
        context = await self._context(queue, task, session if resume else None)
        answer = await self._ask(task, context, str(uuid4()) if self._replays else session, resume=resume)
        if answer.session_lost and resume:
            log.warning("the session cannot be resumed, starting a fresh one", reason=answer.error)
            session, resume = str(uuid4()), False
            context = await self._context(queue, task, None)
            answer = await self._ask(task, context, session, resume=False)
        exists = resume or answer.error is None
        return answer, session if exists else "", context

    @property
    def _replays(self) -> bool:
        return self._settings.session_mode == "replay"

    async def _session(self, queue: TaskQueue, task: Task) -> tuple[str, bool]:
        """(session id, whether it exists)."""
        fresh, lifetime = str(uuid4()), self._settings.session_ttl
        return await keep_trying(lambda: queue.session(task, fresh, lifetime))

    async def _context(self, queue: TaskQueue, task: Task, session: str | None) -> Context:
        """What to inject; nothing if memory is missing, broken or too slow. Without a session to resume, what was said just now comes as text."""
        recent = None if session else await keep_trying(lambda: queue.recent(task))
        if self._memory.moved() and not self._memory.refreshing:
            await _for_a_while(self._memory.refresh)  # else the release that is open must do
        if self._day.wanted and not self._day.opened:
            await _for_a_while(self._day.open)  # the first question after a start
        try:
            async with asyncio.timeout(2 * self._settings.memory_deadline_ms / 1000 + LOOKUP_SLACK_SECONDS):
                return await asyncio.to_thread(self._assemble, task, recent, session)
        except TimeoutError:
            reason = "memory did not answer in time"
        except Exception as error:  # noqa: BLE001 - no memory is not no service
            reason = f"memory failed: {error!r}"
        log.error("answering without memory", reason=reason)
        return Context("", degraded=[reason])

    def _assemble(self, task: Task, recent: list[Said] | None, session: str | None) -> Context:
        with self._memory.reading() as release:
            context = assemble(
                release,
                task.chat_id,
                task.message,
                self._settings,
                recent,
                self._memory.why_none,
                self._day,
                session,
            )
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

    async def _ask(self, task: Task, context: Context, session: str, *, resume: bool) -> Answer:
        directory = self._directory(task)
        system, message = context.placed(task.message, self._settings.recall_placement)
        prompt_file = self._write_prompt(task, system)
        try:
            return await self._claude.ask(Question(message, session, resume, task.model, directory, prompt_file))
        finally:
            if prompt_file and prompt_file.parent == self._prompts.path:
                prompt_file.unlink(missing_ok=True)

    async def _remembered(self, queue: TaskQueue, finished: Finished, task: Task, answer: Answer) -> Finished:
        """The same with the tags of the answer acted on, taken out of what is sent and stored, and what came of them said."""
        if answer.error is not None or not self._remembers:
            return finished
        parsed = tags.parse(answer.text)
        if not parsed.tags:
            return finished
        said_at = finished.turns[-1].timestamp
        notes, later, forgotten = list[str](), b"", list[str]()
        try:
            if any(tag.kind is tags.TagKind.FORGET for tag in parsed.tags):
                await self._stored(queue, task)
            acted = await asyncio.to_thread(self._day.act, task, finished.session, parsed.tags, said_at)
            notes, forgotten = acted.said, acted.forgotten
        except Exception as error:  # noqa: BLE001 - the answer must go out; the dreamer acts on what is kept
            log.error("tags are kept for later", reason=str(error))
            later = later_tags(task, finished.session, parsed.tags, said_at)
            if any(tag.kind in (tags.TagKind.DONE, tags.TagKind.FORGET) for tag in parsed.tags):
                notes = [LATER]
        self._day.crash_point("answering:acted")
        text = parsed.text if parsed.text.strip() else NOTED
        output = "\n\n".join([text, *notes])
        turns = [replace(turn, content=text) if turn.role == "asst" else turn for turn in finished.turns]
        result = self._sign(task.task_id, output, answer.usage)
        return replace(finished, result=result, turns=turns, tags=later, forget=bool(forgotten))

    async def _stored(self, queue: TaskQueue, task: Task) -> None:
        """Bring what was said a moment ago into the store: what is forgotten is looked for there, and one of these may say it again."""
        waiting = await keep_trying(lambda: queue.waiting(task))
        await asyncio.to_thread(self._day.store_turns, waiting)

    async def _command(self, queue: TaskQueue, task: Task, command: commands.Command, claimed_at: float) -> Finished:
        """`/memory`: answered here, and not stored as said."""
        forgotten = False
        try:
            output, forgotten = await self._obeyed(queue, task, command, claimed_at)
        except HmemError as error:
            log.error("a command could not be obeyed", reason=str(error))
            output = AWAY
        return Finished(
            task,
            self._sign(task.task_id, output),
            [],
            NO_SESSION,
            "",
            self._settings.session_ttl,
            [("tasks", "1")],
            forget=forgotten,
        )

    async def _obeyed(self, queue: TaskQueue, task: Task, command: commands.Command, now: float) -> tuple[str, bool]:
        """What to answer, and whether something was forgotten."""
        if command.name == "usage":
            return commands.USAGE, False
        if command.name == "why":
            return commands.why_text(await keep_trying(lambda: queue.why(task))), False
        if not self._remembers:
            return "Nothing is kept here: MEDIUM_URL or MEMORY_TOKENS switches it off.", False
        if command.name == "show":
            return await asyncio.to_thread(self._day.listing, task.chat_id, now), False
        if command.name == "add":
            outcome = await asyncio.to_thread(self._day.add, task, command.text, now)
        else:
            await self._stored(queue, task)
            outcome = await asyncio.to_thread(self._day.forget_number, task, command.number, now)
        return outcome.say, bool(outcome.forgotten)

    def _directory(self, task: Task) -> Path:
        """The chat's own empty directory; on a full disk, the one above it must do."""
        base = self._settings.hmem_state_dir / "chats"
        try:
            return make_dir(base / safe_name(task.chat_id))
        except OSError as error:
            log.error("a chat's directory cannot be made", error=str(error))
            return base if base.is_dir() else self._settings.hmem_state_dir

    def _write_prompt(self, task: Task, memory: str) -> Path | None:
        rules = tags.INSTRUCTIONS if self._remembers else ""
        text = "\n\n".join(part for part in (self._base_prompt, rules, memory) if part)
        if not text:
            return None
        path = self._prompts.path / f"{task.task_id}.md"
        try:
            write_atomic(path, text.encode("utf-8", "replace"))
        except OSError as error:  # memory may be missing, the owner's rules may not: their own file is there
            log.error("answering without memory: its file cannot be written", error=str(error))
            return self._settings.claude_base_prompt_file
        return path

    def _finished(self, task: Task, claimed_at: float, answer: Answer, *, session_was: str, session: str) -> Finished:
        asked = Turn(
            task.task_id,
            "user",
            task.chat_id,
            task.message,
            _said_at(task, claimed_at),
            task.name,
            session or None,
        )
        turns = [asked]
        if answer.error is None:
            # Never before its question, whatever the bot's clock says of that one.
            turns.append(
                Turn(task.task_id, "asst", task.chat_id, answer.text, max(time.time(), asked.timestamp), None, session)
            )
        output = answer.text if answer.error is None else APOLOGY.format(reason=answer.error)
        counters = [("tasks", "1"), ("errors", str(int(answer.error is not None)))]
        return Finished(
            task,
            self._sign(task.task_id, output, answer.usage),
            turns,
            session_was,
            session,
            self._settings.session_ttl,
            counters + [(name, _plain(value)) for name, value in answer.usage.items()],
        )

    def _not_again(self, task: Task, claimed_at: float, deaths: int) -> Finished:
        """For a task that is done already (the script will see that), or that killed its worker too often."""
        turn = Turn(task.task_id, "user", task.chat_id, task.message, _said_at(task, claimed_at), task.name)
        log.warning("task not run again", deaths=deaths)
        return Finished(
            task,
            self._sign(task.task_id, POISON.format(count=deaths)),
            [turn],
            NO_SESSION,
            "",
            self._settings.session_ttl,
            [("tasks", "1"), ("errors", "1")],
            dead_reason=f"its worker died {deaths} times",
        )

    def broken(self, task: Task, claimed_at: float) -> Finished:
        """For a task over which we failed ourselves: an apology, and the session is left as it is."""
        answer = Answer("", error="something went wrong on our side")
        return self._finished(task, claimed_at, answer, session_was=NO_SESSION, session="")

    def _sign(self, task_id: str, output: str, usage: dict[str, object] | None = None) -> Result:
        return Result.sign(self._secret, task_id, output, datetime.now(UTC).isoformat(), usage or None)


async def _for_a_while(call: Callable[[], None]) -> None:
    """Wait for it, but not for long: then it goes on by itself."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(FRESH_SECONDS):
            await asyncio.to_thread(call)


async def keep_trying(call: Callable[[], Awaitable[Value]]) -> Value:
    """Repeat until Redis answers: every call here may be repeated, and giving up would leave the task to die with us."""
    async for attempt in AsyncRetrying(
        retry=retry_if_exception(_may_pass), wait=wait_exponential(0.2, max=10), before_sleep=_say_retry
    ):
        with attempt:
            return await call()
    raise AssertionError("the retries above do not end")


#: Answers of a Redis that is in trouble; any other answer with an error (a key of another type) is the same next time.
_TROUBLE = ("OOM", "MISCONF", "READONLY", "LOADING", "BUSY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN")


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, redis.ResponseError) and not isinstance(
        error, redis.exceptions.OutOfMemoryError | redis.ReadOnlyError
    ):
        return str(error).startswith(_TROUBLE)
    return isinstance(error, redis.RedisError)


def _say_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    log.error("Redis did not take it, trying again", error=str(error), attempt=state.attempt_number)


def _why(context: Context) -> bytes:
    """What `/memory why` tells: the context without its text, each hit shortened."""
    record = context.to_json()
    del record["text"], record["cut"]
    record["hits"] = [
        {
            "date": hit["date"],
            "score": hit["score"],
            "speaker": hit["speaker"],
            "text": shorten(one_line(hit["text"]), WHY_CHARACTERS),
        }
        for hit in record["hits"]
    ]
    return dumps(record)


def _said_at(task: Task, claimed_at: float) -> float:
    """The bot's time of the message, unless its clock is ahead of ours: nothing is dated in the future."""
    return (
        task.submitted_at
        if task.submitted_at is not None and task.submitted_at <= claimed_at + CLOCK_SLACK_SECONDS
        else claimed_at
    )


def _plain(value: object) -> str:
    return format(value, ".10f").rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _base_prompt(settings: Settings) -> str:
    if settings.claude_base_prompt_file is None:
        return ""
    try:
        return settings.claude_base_prompt_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"CLAUDE_BASE_PROMPT_FILE cannot be read: {error}. Mend the path or unset it.") from error
