"""How a task begins: what is known of it, whether it was finished before, and whether a result that exists already is one of ours."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import structlog

from dispatcher.answering.results import ResultBuilder
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.turn import TurnInProgress
from dispatcher.memory.cache_dropping import CacheDropper
from dispatcher.queue.cancellation import Run
from dispatcher.queue.existing_values import ANY, LOOKS, NO_TURNS, are_own, named, sha1
from dispatcher.queue.refused import USED_ID
from dispatcher.queue.tasks import Begun, TaskQueue
from shared.config.settings import Settings
from shared.turns.records import RecordRefused

log = structlog.get_logger()


class TaskBeginning:
    """One per dispatcher."""

    def __init__(
        self, settings: Settings, queue: TaskQueue, results: ResultBuilder, cache_dropper: CacheDropper
    ) -> None:
        self._queue, self._results, self._cache_dropper = queue, results, cache_dropper
        self._session_ttl, self._replays = settings.session_ttl, settings.session_mode == "replay"

    async def begin(self, turn: TurnInProgress, *, with_session: bool, erased: bool) -> Begun:
        """What is known of the task, including an earlier cancellation. RecordRefused if turns of another task exist under its id."""
        task, run, tombstones = turn.task, turn.run, turn.tombstones
        fresh = str(uuid4()) if with_session and not erased else ""
        if any(one.erase for one in tombstones) and await keep_trying(
            lambda: self._queue.end_if_forgotten(task.chat_id, tombstones)
        ):
            log.warning("the current conversation is ended: it contains something that was forgotten")
        begin = partial(self._queue.begin, turn.asked, fresh, self._session_ttl, tombstones, replay=self._replays)
        existing_turns, looks = NO_TURNS, 0
        while True:
            forged = run.forged if looks < LOOKS else ANY
            begun = await keep_trying(partial(begin, forged=forged, existing_turns=existing_turns))
            self._cache_dropper.seen = begun.mark
            looks += 1
            run.awaited |= begun.awaited
            if begun.cancelled:
                run.cancel()
            if begun.done is None and named(begun.turns) != existing_turns and not erased:
                if not are_own(turn.asked, begun.turns):
                    raise RecordRefused(USED_ID)
                existing_turns = named(begun.turns)  # it was finished before, but the mark has expired
            elif begun.existing_result and not run.cancelled:
                self.judge_existing(run, begun.existing_result)  # of an unsigned one: look again without it
            else:
                return begun

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
