"""The path of one task: begun in Redis, answered, and finished there with everything that it leaves behind.

    parse ─ forgotten? seen before? cancelled? ─ a command? ─ declined? ─ answer (conversation/answerer.py) ─ finish, or postpone (asked again later)
      └ bury (dead letter, with the reason)

A task is begun before Claude is asked, and one script writes everything that it leaves: a crash in between has written nothing. What features add
comes in by hooks (hooks.py); what the parts of a dispatcher are, and how they are made, is in opening.py.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from uuid import uuid4

from dispatcher.answering.hooks import counters, decline, fields, message_finished
from dispatcher.answering.opening import Parts
from dispatcher.answering.results import CANCELLED
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.turn import TurnInProgress
from dispatcher.memory.tombstones import FORGOTTEN, erases
from dispatcher.queue.cancellation import Run, end_unwanted
from dispatcher.queue.existing_values import NO_TURNS, are_own, named, sha1
from dispatcher.queue.refused import USED_ID, addressable_id, parsed_task
from dispatcher.queue.tasks import MAX_ATTEMPTS, Begun, Claim, Finished
from shared.system.faults import crash_point
from shared.text.logs import Logger, bound
from shared.text.translations import speaking
from shared.turns.records import RecordRefused, Task, Turn

log = Logger()


class TaskHandler:
    """One per dispatcher."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    async def handle(self, claim: Claim, run: Run) -> None:
        """The whole path of a claimed task; one that cannot be processed becomes a dead letter."""
        started = time.time()
        try:
            task = parsed_task(claim.raw, claim.lock)
            run.task_id, run.chat_id = task.task_id, task.chat_id
            with bound(task=task.task_id), speaking(task.language):
                await self._finish(claim, await self._answered(task, started, run), started)
        except RecordRefused as error:
            await self._bury(claim, str(error))

    def judge_existing(self, run: Run, existing: bytes) -> None:
        """A result exists while the task runs: the bot's own ends the task; an unsigned one is remembered and will be replaced."""
        if not run.task_id or sha1(existing) == run.forged:
            return
        if self.parts.core.results.signed(run.task_id, existing):
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
            turn = TurnInProgress(task, started, run, self.parts.lookup.tombstones(task), task)
            finished = await self._answer(turn)
        except RecordRefused:
            raise
        except Exception:  # a defect of ours: the chat must not wait for it
            log.exception("the answer failed")
            return self.parts.core.results.broken(task, started)
        # Whatever was asked, it is the task of the queue that is finished.
        return replace(finished, task=task, existing_turns=named(turn.begun.turns))

    async def _answer(self, turn: TurnInProgress) -> Finished:
        parts, task, results = self.parts, turn.task, self.parts.core.results
        erased, command = erases(turn.tombstones, task, turn.claimed_at), parts.commands.of(task)
        if question := await parts.commands.question(task):
            turn.asked, command = question, None  # a question like any other from here on
        turn.begun = await self._begin(turn, with_session=command is None, erased=erased)
        if erased:  # an old copy of Redis brought it back
            log.warning("a task is not answered, because it was forgotten")
            return results.without_turn(task, FORGOTTEN)
        if turn.begun.done is not None and turn.begun.done != task.digest:
            raise RecordRefused(USED_ID)
        if turn.begun.done or turn.begun.deaths >= MAX_ATTEMPTS:
            log.warning("task not run again", deaths=turn.begun.deaths)
            return results.not_again(turn)
        if turn.run.cancelled:
            return results.without_turn(task, CANCELLED) if command else results.cancelled(turn)
        if command:
            return results.reply(task, await parts.commands.reply_to(task, command, turn.claimed_at))
        if declined := await parts.hooks.ask_async(decline, task=task, now=turn.claimed_at):
            return results.unanswered(turn, declined[0], "declined")
        return await parts.conversation.answer(turn)

    async def _begin(self, turn: TurnInProgress, *, with_session: bool, erased: bool) -> Begun:
        """What is known of the task; the run has an earlier cancellation. RecordRefused if turns of another task exist under its id."""
        queue, task, run, tombstones = self.parts.core.queue, turn.task, turn.run, turn.tombstones
        await keep_trying(lambda: end_unwanted(self.parts.core.redis, [run], self.judge_existing))
        fresh = str(uuid4()) if with_session and not erased and not run.cancelled else ""
        if any(one.erase for one in tombstones) and await keep_trying(
            lambda: queue.end_if_forgotten(task.chat_id, tombstones)
        ):
            log.warning("the current conversation is ended: it contains something that was forgotten")
        existing_turns = NO_TURNS
        while True:
            begun = await keep_trying(partial(queue.begin, turn.asked, fresh, tombstones, existing_turns))
            self.parts.cache_dropper.seen = begun.mark
            if begun.done is not None or named(begun.turns) == existing_turns or erased:
                return begun
            if not are_own(turn.asked, begun.turns):
                raise RecordRefused(USED_ID)
            existing_turns = named(begun.turns)  # it was finished before, but the mark has expired

    async def _finish(self, claim: Claim, finished: Finished, started: float) -> None:
        """It is asked again later where that may help. RecordRefused if its id is another task's by now."""
        hooks = self.parts.hooks
        if await keep_trying(lambda: self.parts.core.queue.postpone(claim, finished)):
            crash_point("answering:postponed")
            log.warning("the question waits in the queue", reason=finished.error and finished.error.why)
            return
        finished = replace(finished, turns=[await self._with_fields(one) for one in finished.turns])
        counted = [one for some in hooks.ask(counters, finished=finished) for one in some]
        finished = replace(finished, counters=tuple(counted))
        first = await keep_trying(lambda: self.parts.core.queue.finish(claim, finished))
        outcome, seconds = finished.outcome if first else "repeated", time.time() - started
        log.info("task finished", seconds=round(seconds, 2), outcome=outcome)
        hooks.ask(message_finished, outcome=outcome, seconds=seconds, usage=finished.result.usage or {})

    async def _with_fields(self, turn: Turn) -> Turn:
        more = await self.parts.hooks.ask_async(fields, turn=turn)
        extra = {name: value for some in (turn.extra, *more) for name, value in some.items()}
        return replace(turn, extra=extra) if more else turn

    async def _bury(self, claim: Claim, reason: str) -> None:
        task_id = addressable_id(claim.raw)
        result = self.parts.core.results.refused(task_id, reason) if task_id else None
        log.warning("task refused", reason=reason)
        self.parts.hooks.ask(message_finished, outcome="refused", seconds=0.0, usage={})
        if not await keep_trying(lambda: self.parts.core.queue.bury(claim, reason, task_id, result)):
            log.error("the dead letters in Redis are not a list, so the task stays in flight. Move that key away.")
