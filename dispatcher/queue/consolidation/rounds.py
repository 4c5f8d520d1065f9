"""Consolidation: during the day, in the background, it moves turns into the day store and ends sessions that have grown too long.

    unconsolidated turns ─ stored ─ removed from the list, by value
    a session over SESSION_TOKENS ─ its summary stored ─ the session ended (rotate.lua), unless a task is using it
    ten summaries of a chat, or one a day old ─ long tier: found like turns until the night has them
    tags that could not be carried out · tombstones not in Redis · reminders ─ brought up to date
    turns older than KEPT_DAYS that are in the release ─ removed
    what changed in memories and rows of features ─ handed to Redis, for the archive
    missing vectors ─ made while nobody asks

Every step may be repeated, and the order makes a crash harmless: stored before removed from a list, summarised before a session ends. A lease
keeps two dispatchers off one chat. It never blocks an answer and never stops: a step that fails is logged and tried again in the next round.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from redis import Redis, RedisError

from dispatcher.memory.store.events import hand_over
from dispatcher.memory.tombstones import announce, end_conversation
from dispatcher.memory.typed.tags import AnswerTags
from dispatcher.queue.consolidation.chat_turns import ChatTurns
from dispatcher.queue.consolidation.reminders import Reminders
from dispatcher.queue.refused import dead_letter
from shared.errors import HmemError, StorageError
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.turns.records import loads_object
from shared.wire import keys
from shared.wire.values import shown

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    from dispatcher.memory.day.memory import DayMemory

log = Logger()

#: Chats, vectors and entries of tags in one round. The rest waits for the next round.
CHATS_PER_ROUND, VECTORS_PER_ROUND, TAGS_PER_ROUND = 200, 256, 500
#: Seconds after the last answer at which a round begins, so that a person finds what was just said.
SOON_SECONDS = 3.0
#: Seconds of a round for vectors, with the wait for a time when nobody asks; what is left then waits for the next round.
EMBED_SECONDS = 10.0
#: Summaries of a chat from which the oldest become searchable, or their age in seconds.
SUMMARIES_LEFT, SUMMARY_SECONDS = 10, 86_400.0
#: Rounds in which a step is tried again that fails although store and Redis answer.
MOST_TRIES = 5
SECONDS_PER_DAY = 86_400.0
#: Days for which turns stay in the day store; they stay longer if they are not in the release yet.
KEPT_DAYS = 7.0


class Consolidator:
    """One per dispatcher. `round` is slow and must run in a thread."""

    def __init__(self, day: DayMemory, client: Redis, worker: str, now: Callable[[], float] = time.time) -> None:
        """`now` is its clock."""
        self._day, self._now = day, now
        self._redis: Any = client  # it returns bytes; the library's types are bytes or str
        self._chats, self._reminders = ChatTurns(day, client, worker), Reminders(day, client, now)
        self._failures: dict[bytes, int] = {}
        self._stopping = False
        self._busy = threading.Lock()

    def stop(self) -> None:
        """Stop the round after its current step."""
        self._stopping = True

    def wait(self, seconds: float) -> bool:
        """Wait for the running round to end; False if it takes longer."""
        if self._busy.acquire(timeout=seconds):
            self._busy.release()
            return True
        return False

    def round(self) -> None:
        """One round of all steps; a step that fails is logged and does not stop the others."""
        steps = (self._day.open, self._announce, self._consolidate, self._act_on_tags, self._promote)
        with self._busy:
            for step in (
                *steps,
                self._reminders.remind,
                self._reminders.drop_unfetched,
                self._prune,
                self._hand_over_events,
                self._embed,
            ):
                if self._stopping:
                    return
                self._try(step)

    def _try(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (HmemError, RedisError) as error:
            log.warning(
                "a consolidation step waits for store or Redis", step=step.__name__.strip("_"), reason=str(error)
            )
        except Exception:  # whatever it is, there must be a next round
            log.exception("a consolidation step failed", step=step.__name__.strip("_"))

    def _announce(self) -> None:
        announce(self._redis, self._day.forgotten.all())

    def _act_on_tags(self) -> None:
        """Tags that came while the store was unavailable, or are of an import's facts, in order; removed only after they have been carried out."""

        def dead_letter_tags(raw: bytes, reason: str) -> None:
            log.error("tags that cannot be carried out are moved to the dead letters", reason=reason)
            self._redis.rpush(keys.DEAD, dead_letter(raw, f"its tags could not be carried out: {reason}"))

        for _ in range(TAGS_PER_ROUND):
            if self._stopping or (raw := self._redis.lindex(keys.TAGS, 0)) is None:
                return
            if not self._settled(raw, self._act_on, dead_letter_tags):
                return
            self._redis.lrem(keys.TAGS, 1, raw)

    def _act_on(self, raw: bytes) -> None:
        """The current conversation contains what is forgotten here, so it ends. Other turns that contain it must be in the store before."""
        answer = AnswerTags.parse(loads_object(raw))
        chat_id = answer.task.chat_id
        while self._chats.store(chat_id):
            pass
        if self._day.requests.act(answer, later=True).forgotten:
            end_conversation(self._redis, chat_id)
        crash_point("consolidation:acted")

    def _consolidate(self) -> None:
        def leave(raw: bytes, reason: str) -> None:
            log.error("a chat cannot be consolidated and is left to the night", chat=shown(raw), reason=reason)
            self._redis.srem(keys.CHATS, raw)

        for raw in self._redis.srandmember(keys.CHATS, CHATS_PER_ROUND):
            if self._stopping:
                return
            self._settled(raw, lambda raw: self._chats.store_alone(raw.decode("utf-8", "replace")), leave)

    def _embed(self) -> None:
        """Between the questions, never ahead of one: what has no vector yet is found by its words. Last, because it may have to wait."""
        ends = time.monotonic() + EMBED_SECONDS

        def may_go_on() -> bool:
            left = ends - time.monotonic()
            return not self._stopping and left > 0 and self._day.questions.wait_until_quiet(left)

        self._day.upkeep.embed_missing(VECTORS_PER_ROUND, may_go_on)

    def _promote(self) -> None:
        """The oldest summaries of a chat that has many, and those of a day ago, become searchable."""
        for chat_id, ids in self._day.summaries.due(SUMMARIES_LEFT, self._now() - SUMMARY_SECONDS).items():
            self._day.summaries.promote(chat_id, ids)

    def _prune(self) -> None:
        self._day.upkeep.prune(self._now() - KEPT_DAYS * SECONDS_PER_DAY)

    def _hand_over_events(self) -> None:
        hand_over(self._day.event_outbox, self._redis)

    def _settled(self, what: bytes, do: Callable[[bytes], None], abandon: Callable[[bytes, str], None]) -> bool:
        """Whether it is done or abandoned: a failure that is not an outage of store, disk or Redis is tried again MOST_TRIES times."""
        from shared.errors import StoreUnavailable

        name = hashlib.sha256(what).digest()  # not the text itself, which may be forgotten meanwhile
        try:
            do(what)
        except (StoreUnavailable, StorageError, RedisError):
            raise
        except Exception as error:
            self._failures[name] = self._failures.get(name, 0) + 1
            if self._failures[name] < MOST_TRIES:
                log.exception("a consolidation step failed, trying again", tries=self._failures[name])
                return False
            abandon(what, str(error) or repr(error))
        self._failures.pop(name, None)
        return True


def scheduled(consolidator: Consolidator, seconds: float) -> AsyncIOScheduler:
    """A scheduler, not started, that runs a round every `seconds`. Rounds never overlap, but one may wait for another to end."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults={"max_instances": 2, "misfire_grace_time": None})
    scheduler.add_job(
        _round, "interval", [consolidator], seconds=seconds, coalesce=True, next_run_time=datetime.now(UTC)
    )
    return scheduler


def hasten(scheduler: AsyncIOScheduler, consolidator: Consolidator) -> None:
    """A round of its own SOON_SECONDS after the last answer, so that many answers in a row are not disturbed by any."""
    soon = datetime.now(UTC) + timedelta(seconds=SOON_SECONDS)
    scheduler.add_job(_round, "date", [consolidator], run_date=soon, id="after an answer", replace_existing=True)


async def _round(consolidator: Consolidator) -> None:
    with suppress(asyncio.CancelledError):  # the scheduler cancels; the round itself ends between two steps
        await asyncio.to_thread(consolidator.round)
