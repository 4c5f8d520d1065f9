"""The path of one task: begun in Redis, answered, and finished there with everything that it leaves behind.

    parse ─ forgotten? seen before? cancelled? ─ a command? ─ answer (conversation.py) ─ finish
      └ bury (dead letter, with the reason)

A task is begun before Claude is asked, and one script writes everything that it leaves: a crash in between has written nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast
from uuid import uuid4

import structlog
from redis.asyncio import Redis

from dispatcher.answering.ask_claude import ClaudeCaller
from dispatcher.answering.commands.again import RetryCommand, WhyCommand
from dispatcher.answering.commands.command import ChatCommand, CommandReply
from dispatcher.answering.commands.forget import ForgetCommands
from dispatcher.answering.commands.memory import MemoryCommands
from dispatcher.answering.commands.registry import CommandRegistry
from dispatcher.answering.commands.schedules import ScheduleCommands, TimeZoneCommand
from dispatcher.answering.conversation import ConversationAnswerer, MessageContexts
from dispatcher.answering.hooks import Core, chat_commands, counters, decline, dispatcher_stopped, message_finished
from dispatcher.answering.hooks import dispatcher as dispatcher_parts
from dispatcher.answering.media.corrections import Corrections
from dispatcher.answering.media.documents.conversion import DocumentReader
from dispatcher.answering.media.keeping import MediaKeeper
from dispatcher.answering.media.made_files import MadeFiles
from dispatcher.answering.media.reading import MediaReader
from dispatcher.answering.media.transcription import open_transcriber
from dispatcher.answering.partial import PartialAnswers
from dispatcher.answering.results import CANCELLED, ResultBuilder
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.tag_actions import TagActions
from dispatcher.claude.client import ClaudeCli
from dispatcher.claude.media_sessions import MediaSessions
from dispatcher.health.notices.claude_errors import note_outcome
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.tombstones import FORGOTTEN, erases
from dispatcher.queue.cancellation import Run
from dispatcher.queue.chat.approvals import Approvals
from dispatcher.queue.chat.records import ChatRecords
from dispatcher.queue.chat.zones import ChatZones, chosen_language
from dispatcher.queue.existing_values import ANY, LOOKS, NO_TURNS, are_own, named, sha1
from dispatcher.queue.refused import USED_ID, TooLarge
from dispatcher.queue.rights import Rights
from dispatcher.queue.tasks import MAX_ATTEMPTS, Begun, Claim, Finished, TaskQueue
from dispatcher.releases.served import ServedRelease
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.hooks import features
from shared.text.translations import speaking, tr
from shared.turns.records import RecordRefused, Task, Tombstone, loads_object, task_id_of
from shared.wire import keys
from shared.wire.client import BACKGROUND, open_redis
from shared.wire.media.open import open_media

log = structlog.get_logger()


class TaskHandler:
    """One per dispatcher; owns everything that an answer requires."""

    def __init__(
        self,
        settings: Settings,
        client: Redis,
        claude: ClaudeCli,
        day: DayMemory,
        served: ServedRelease,
    ) -> None:
        self._settings = settings
        self._results = ResultBuilder(settings)
        self.queue = TaskQueue(client, settings.task_bytes, self._results.signed)
        self.day, self.served = day, served
        self._redis, self._media_sessions = client, MediaSessions(settings)
        self.cache_dropper = CacheDropper(served, day)
        rights = Rights(settings)
        tags = TagActions(settings, self.queue, day, rights, self._results)
        background = open_redis(settings.redis_url, BACKGROUND)
        self.zones = ChatZones(background, settings.timezone)
        day.zone_of = self.zones.of
        records = ChatRecords(client)
        self._retry = RetryCommand(records, day)
        core = Core(settings, client, background, self.queue, day, served, rights, self._results)
        self._features = features().parts(dispatcher_parts, core=core)
        self._commands = CommandRegistry(
            {
                "memory": MemoryCommands(self.queue, day, rights, enabled=tags.enabled),
                "forget": ForgetCommands(settings, self.queue, records, day, rights),
                "why": WhyCommand(records),
                "retry": self._retry,
                "remind": ScheduleCommands(day, rights, "reminder"),
                "every": ScheduleCommands(day, rights, "question", owners_only=True),
                "timezone": TimeZoneCommand(self.zones, rights),
            },
            *self._features.ask(chat_commands),
        )
        self._contexts = MessageContexts(settings, day, served, self.cache_dropper, self._features)
        shown = PartialAnswers(settings, client, remembers=tags.enabled) if settings.stream else None
        note, sessions, zone_of = partial(note_outcome, client), self._media_sessions, self.zones.of
        self.approvals = asked = Approvals(settings, client)
        self._claude = ClaudeCaller(
            settings, claude, sessions, self._features, note, shown, asked, remembers=tags.enabled, zone_of=zone_of
        )
        self._keeper = MediaKeeper(settings, client)
        replays = settings.session_mode == "replay"
        store = open_media(settings, client)
        chosen = partial(chosen_language, background)
        media = MediaReader(store, open_transcriber(settings), DocumentReader(settings), chosen)
        made = MadeFiles(settings, store)
        self._conversation = ConversationAnswerer(
            self.queue,
            self._claude,
            self._contexts,
            tags,
            self._results,
            media,
            Corrections(client, day),
            made,
            replays=replays,
        )

    def close(self) -> None:
        self._claude.close()
        self.served.close()
        self.day.close()
        self.zones.close()
        self._features.ask(dispatcher_stopped)

    async def handle(self, claim: Claim, run: Run) -> None:
        """The whole path of a claimed task; one that cannot be processed becomes a dead letter."""
        started = time.time()
        try:
            task = _parsed(claim, self._settings.task_bytes)
            run.task_id, run.chat_id = task.task_id, task.chat_id
            with structlog.contextvars.bound_contextvars(task=task.task_id), speaking(task.language):
                finished = await self._keeper.keep(await self._answered(task, started, run))
                await self._finish(claim, finished, started)
        except RecordRefused as error:
            await self._bury(claim, str(error))

    async def watch_media(self) -> None:
        """Take pictures of ended conversations out of Claude's files, until cancelled."""

        async def current(chat_id: str) -> str | None:
            raw = cast(bytes | None, await self._redis.get(keys.session(chat_id)))
            return raw.decode("utf-8", "replace") if raw else None

        await self._media_sessions.watch(current)

    def judge_existing(self, run: Run, existing: bytes) -> None:
        """A result exists while the task runs: the bot's own ends the task; an unsigned one is remembered and will be replaced."""
        if not run.task_id or sha1(existing) == run.forged:
            return
        if self._results.signed(run.task_id, existing):
            run.cancel()
        else:
            log.warning(
                "a result with a wrong signature is stored under this task; the answer will replace it",
                task=run.task_id,
            )
            run.forged = sha1(existing)

    async def _answered(self, task: Task, started: float, run: Run) -> Finished:
        """RecordRefused if its id is another task's."""
        try:
            return await self._answer(task, started, run)
        except RecordRefused:
            raise
        except Exception:  # a defect of ours: the chat must not wait for it
            log.exception("the answer failed")
            return self._results.broken(task, started)

    async def _answer(self, task: Task, started: float, run: Run) -> Finished:
        tombstones = self._contexts.tombstones(task)
        erased, command = erases(tombstones, task, started), self._commands.of(task)
        asked = await self._asked(task, command)
        if command and command.name == "retry" and asked.retries:  # a question like any other from here on
            command = None
        begun = await self._begin(asked, run, tombstones, with_session=command is None, erased=erased)
        if erased:  # an old copy of Redis brought it back
            log.warning("a task is not answered, because it was forgotten")
            finished = self._results.reply(task, CommandReply(tr(FORGOTTEN), error=True))
        elif begun.done is not None and begun.done != task.digest:
            raise RecordRefused(USED_ID)
        elif begun.done or begun.deaths >= MAX_ATTEMPTS:
            log.warning("task not run again", deaths=begun.deaths)
            finished = self._results.not_again(asked, started, begun.deaths)
        elif run.cancelled and command:  # nothing of a command is stored
            finished = self._results.reply(task, CommandReply(tr(CANCELLED), error=True))
        elif run.cancelled:
            finished = self._results.cancelled(asked, started, begun)
        elif command:
            reply = await self._commands.reply_to(task, command, started)
            finished = self._results.reply(task, reply)
        elif declined := await self._features.ask_async(decline, task=task, now=started):
            finished = self._results.declined(asked, started, declined[0])
        else:
            finished = await self._conversation.answer(asked, started, begun, run)
        # Whatever was asked, it is the task of the queue that is finished.
        return replace(finished, task=task, existing_turns=named(begun.turns))

    async def _asked(self, task: Task, command: ChatCommand | None) -> Task:
        """The task with the message that Claude is asked: of `/retry`, an earlier message."""
        if command is None or command.name != "retry":
            return task
        try:
            found = await self._retry.question(task, command)
        except HmemError:  # the command apologises
            return task
        return found if isinstance(found, Task) else task

    async def _begin(
        self, task: Task, run: Run, tombstones: Sequence[Tombstone], *, with_session: bool, erased: bool
    ) -> Begun:
        """What is known of the task, including an earlier cancellation. RecordRefused if turns of another task exist under its id."""
        fresh = str(uuid4()) if with_session and not erased else ""
        if any(one.erase for one in tombstones) and await keep_trying(
            lambda: self.queue.end_if_forgotten(task.chat_id, tombstones)
        ):
            log.warning("the current conversation is ended: it contains something that was forgotten")
        replay = self._settings.session_mode == "replay"
        begin = partial(self.queue.begin, task, fresh, self._settings.session_ttl, tombstones, replay=replay)
        existing_turns, looks = NO_TURNS, 0
        while True:
            forged = run.forged if looks < LOOKS else ANY
            begun = await keep_trying(partial(begin, forged=forged, existing_turns=existing_turns))
            self.cache_dropper.seen = begun.mark
            looks += 1
            run.awaited |= begun.awaited
            if begun.cancelled:
                run.cancel()
            if begun.done is None and named(begun.turns) != existing_turns and not erased:
                if not are_own(task, begun.turns):
                    raise RecordRefused(USED_ID)
                existing_turns = named(begun.turns)  # it was finished before, but the mark has expired
            elif begun.existing_result and not run.cancelled:
                self.judge_existing(run, begun.existing_result)  # of an unsigned one: look again without it
            else:
                return begun

    async def _finish(self, claim: Claim, finished: Finished, started: float) -> None:
        """RecordRefused if its id is another task's by now."""
        counted = [one for some in self._features.ask(counters, finished=finished) for one in some]
        finished = replace(finished, counters=tuple(counted))
        first = await keep_trying(lambda: self.queue.finish(claim, finished))
        outcome, seconds = finished.outcome if first else "repeated", time.time() - started
        log.info("task finished", seconds=round(seconds, 2), outcome=outcome)
        usage = cast(Mapping[str, float], finished.result.usage or {})
        self._features.ask(message_finished, outcome=outcome, seconds=seconds, usage=usage)

    async def _bury(self, claim: Claim, reason: str) -> None:
        task_id = _addressable(claim.raw)
        result = self._results.refused(task_id, reason) if task_id else None
        log.warning("task refused", reason=reason)
        self._features.ask(message_finished, outcome="refused", seconds=0.0, usage={})
        if not await keep_trying(lambda: self.queue.bury(claim, reason, task_id, result)):
            log.error("the dead letters in Redis are not a list, so the task stays in flight. Move that key away.")


def _parsed(claim: Claim, task_bytes: int) -> Task:
    """RecordRefused for something that is not a task, or too large."""
    if large := TooLarge.parse(claim.raw):
        raise RecordRefused(large.reason(task_bytes))
    task = Task.parse(claim.raw)
    # The lock keeps the order within a chat: a task whose chat Redis reads differently would run in parallel with another one of its chat.
    if claim.lock.decode("utf-8", "replace") != task.chat_id:
        raise RecordRefused("chat_id is written in an ambiguous way")
    return task


def _addressable(raw: bytes) -> str | None:
    """The id of a malformed task, if it has a valid one: then its sender gets an answer."""
    if large := TooLarge.parse(raw):
        return large.task_id
    try:
        return task_id_of(loads_object(raw).get("task_id"))
    except RecordRefused:
        return None
