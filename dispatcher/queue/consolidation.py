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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog
from redis import Redis, RedisError
from redis.exceptions import LockError

from dispatcher.memory.store.events import hand_over
from dispatcher.memory.tombstones import announce, end_conversation
from dispatcher.queue.refused import dead_letter
from dispatcher.queue.scripts import script_text
from shared.errors import HmemError, StorageError
from shared.system.faults import crash_point
from shared.turns.records import RecordRefused, Turn, loads_object, timestamp_of, turns_of
from shared.turns.signed import secret_in, sign_record
from shared.wire import keys
from shared.wire.ids import bot_names, bot_of
from shared.wire.json import record_of
from shared.wire.values import count_of, shown

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.turns import StoredTurn

log = structlog.get_logger()

#: Turns of a chat in one transaction; chats, vectors and entries of tags in one round. The rest waits for the next round.
TURNS_PER_BATCH, CHATS_PER_ROUND, VECTORS_PER_ROUND, TAGS_PER_ROUND = 200, 200, 256, 500
#: Seconds after an answer within which the next round begins, so that a person finds what was just said.
SOON_SECONDS = 3.0
#: Seconds of a round for vectors, with the wait for a time when nobody asks; what is left then waits for the next round.
EMBED_SECONDS = 10.0
#: Summaries of a chat from which the oldest become searchable, or their age in seconds.
SUMMARIES_LEFT, SUMMARY_SECONDS = 10, 86_400.0
#: Goals that are checked in one round.
REMINDERS_PER_ROUND = 10_000
#: A chat's newest turns by which a reminder has its language.
TURNS_LOOKED_AT = 20
#: Rounds in which a step is tried again that fails although store and Redis answer.
MOST_TRIES = 5
SECONDS_PER_DAY = 86_400.0
#: The scheduler's name for the rounds.
_ROUND = "consolidation"
#: Days for which turns stay in the day store; they stay longer if they are not in the release yet.
KEPT_DAYS = 7.0
#: Messages that no bot has fetched are dropped after this many days: a reminder is about the next day. h-cli's bot fetches none.
UNFETCHED_DAYS = 3


class Consolidator:
    """One per dispatcher. `round` is slow and must run in a thread."""

    def __init__(self, day: DayMemory, client: Redis, worker: str, now: Callable[[], float] = time.time) -> None:
        """`now` is its clock."""
        self._day, self._worker, self._now = day, worker, now
        self._redis: Any = client  # it returns bytes; the library's types are bytes or str
        self._rotate = client.register_script(script_text("queue/rotate"))
        self._remind_once = client.register_script(script_text("queue/remind"))
        self._consolidated = client.register_script(script_text("queue/consolidated"))
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
        steps = (self._day.open, self._announce, self._consolidate, self._act_on_tags, self._promote, self._remind)
        with self._busy:
            for step in (*steps, self._drop_unfetched, self._prune, self._hand_over_events, self._embed):
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
        record = loads_object(raw)
        chat_id = str(record["chat_id"])
        while self._consolidate_chat(chat_id):
            pass
        if self._day.requests.act_later(record).forgotten:
            end_conversation(self._redis, chat_id)
        crash_point("consolidation:acted")

    def _consolidate(self) -> None:
        def leave(raw: bytes, reason: str) -> None:
            log.error("a chat cannot be consolidated and is left to the night", chat=shown(raw), reason=reason)
            self._redis.srem(keys.CHATS, raw)

        for raw in self._redis.srandmember(keys.CHATS, CHATS_PER_ROUND):
            if self._stopping:
                return
            self._settled(raw, self._consolidate_alone, leave)

    def _consolidate_alone(self, raw: bytes) -> None:
        chat_id = raw.decode("utf-8", "replace")
        with self._lease(chat_id) as mine:
            if mine and not self._consolidate_chat(chat_id):
                self._end_long_session(chat_id)

    def _consolidate_chat(self, chat_id: str) -> int:
        """How many turns are left for the next round. Those that the night has flushed are in the release and need not be stored."""
        ids, turns = waiting(self._redis, chat_id, TURNS_PER_BATCH)
        if ids:
            self._day.upkeep.store_turns(turns)
            crash_point("consolidation:stored")
        names = [keys.unconsolidated(chat_id), keys.CHATS, keys.spent(chat_id)]
        return int(self._consolidated(keys=names, args=[chat_id, self._day.settings.session_tokens, *ids]))

    def _embed(self) -> None:
        """Between the questions, never ahead of one: what has no vector yet is found by its words. Last, because it may have to wait."""
        ends = time.monotonic() + EMBED_SECONDS

        def may_go_on() -> bool:
            left = ends - time.monotonic()
            return not self._stopping and left > 0 and self._day.questions.wait_until_quiet(left)

        self._day.upkeep.embed_missing(VECTORS_PER_ROUND, may_go_on)

    def _end_long_session(self, chat_id: str) -> None:
        """Summarise and end the chat's session if it has grown too long; all of its turns are in the store."""
        spent = self._redis.hgetall(keys.spent(chat_id))
        session = spent.get(b"session", b"").decode("utf-8", "replace")
        if count_of(spent.get(b"tokens")) < self._day.settings.session_tokens:
            return
        if self._redis.hexists(keys.BUSY, chat_id):  # its answer belongs in the summary; the script checks again
            return
        turns = self._day.turns.of_session(chat_id, session)
        if turns:
            self._day.upkeep.summarise_session(chat_id, session, [stored.turn for stored in turns])
            crash_point("consolidation:summarised")
        names = [keys.session(chat_id), keys.history(chat_id), keys.size(chat_id), keys.spent(chat_id), keys.BUSY]
        names.append(keys.unconsolidated(chat_id))
        if self._rotate(keys=names, args=[chat_id, session, *self._entries(chat_id, turns)]):
            log.info("a long session was summarised and ended", turns=len(turns))

    def _entries(self, chat_id: str, turns: list[StoredTurn]) -> list[bytes]:
        """Entries of the short list that are in the summary: those with the time and the text of its turns."""
        summarised = {(stored.turn.timestamp, stored.turn.content) for stored in turns}
        entries = ((raw, record_of(raw)) for raw in self._redis.lrange(keys.history(chat_id), 0, -1))
        return [raw for raw, entry in entries if (entry.get("timestamp"), entry.get("content")) in summarised]

    def _promote(self) -> None:
        """The oldest summaries of a chat that has many, and those of a day ago, become searchable."""
        for chat_id, ids in self._day.summaries.due(SUMMARIES_LEFT, self._now() - SUMMARY_SECONDS).items():
            self._day.summaries.promote(chat_id, ids)

    def _remind(self) -> None:
        """Send reminders, then mark them in the store; the script sends each only once, so a crash in between sends no second one."""
        from dispatcher.memory.dates.reminders import EARLIEST_SECONDS, reminder_time

        now = self._now()
        for memory in self._day.memories.due(now + EARLIEST_SECONDS, REMINDERS_PER_ROUND):
            deadline, zone = memory.deadline or now, self._day.zone_of(memory.chat_id)
            when = reminder_time(deadline, memory.created, zone)
            if when is not None and now < when:
                continue
            if memory.memory_id in {one.memory_id for one in self._day.remembering.of_chat(memory.chat_id).memories}:
                if when is not None:
                    self._send_reminder(memory, deadline, now)
            elif deadline >= now:
                continue  # Superseded or forgotten. It may be valid again before its deadline; afterwards it must not count among the most urgent.
            self._day.memories.mark_reminded(memory.chat_id, memory.memory_id, now)

    def _send_reminder(self, memory: Memory, deadline: float, now: float) -> None:
        """Put it into the outbox, once per memory even after a crash."""
        from dispatcher.memory.dates.reminders import language_of_answers, reminder_text
        from dispatcher.memory.store.whose import said_text
        from dispatcher.queue.chats import chosen_language
        from shared.text.translations import speaking

        chat_id = memory.chat_id
        recent = [one.turn for one in self._day.turns.newest(chat_id, TURNS_LOOKED_AT)]
        with speaking(chosen_language(self._redis, chat_id) or language_of_answers(recent, memory.text)):
            text = reminder_text(said_text(memory), deadline, now, self._day.zone_of(chat_id))
        message = {"id": f"reminder-{memory.uid}", "chat_id": chat_id, "text": text, "created_at": now}
        names = [keys.reminded(memory.uid), keys.outbox(bot_of(chat_id))]
        signed = sign_record(secret_in(self._day.settings), names[1], message)
        self._remind_once(keys=names, args=[signed, keys.REMINDED_TTL_SECONDS])
        crash_point("consolidation:reminded")

    def _drop_unfetched(self) -> None:
        """From the oldest on, what is older than UNFETCHED_DAYS, or has a date far from our clock."""
        dropped = 0
        for outbox in map(keys.outbox, bot_names()):
            while (raw := self._redis.lindex(outbox, 0)) is not None:
                with suppress(RecordRefused):  # we did not write it
                    age = abs(self._now() - timestamp_of(loads_object(raw).get("created_at")))
                    if age < UNFETCHED_DAYS * SECONDS_PER_DAY:
                        break
                dropped += int(self._redis.lrem(outbox, 1, raw))
        if dropped:
            log.warning("messages that no bot has fetched are dropped", messages=dropped, days=UNFETCHED_DAYS)

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

    @contextmanager
    def _lease(self, chat_id: str) -> Iterator[bool]:
        """Whether this dispatcher holds the lease on the chat."""
        lock = self._redis.lock(
            keys.consolidating(chat_id), timeout=keys.CONSOLIDATING_TTL_SECONDS, blocking=False, thread_local=False
        )
        mine = bool(lock.acquire(token=f"{self._worker}:{uuid4().hex[:8]}"))
        try:
            yield mine
        finally:
            if mine:
                with suppress(LockError):  # it took longer than the lease, and another dispatcher may hold the chat now
                    lock.release()


def waiting(client: Any, chat_id: str, most: int = 0) -> tuple[list[str], list[Turn]]:
    """The oldest `most` (0: all) of the chat's turns that are not in the day store yet: their ids, and the turns that can be read."""
    ids = [raw.decode("utf-8", "replace") for raw in client.lrange(keys.unconsolidated(chat_id), 0, most - 1)]
    names = [keys.MEMORY_PREFIX + one for one in ids]
    return ids, turns_of(names, client.mget(names) if names else [], chat_id)


def scheduled(consolidator: Consolidator, seconds: float) -> AsyncIOScheduler:
    """A scheduler, not started, that runs a round every `seconds` in a thread; rounds never overlap."""
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

    async def once() -> None:
        with suppress(asyncio.CancelledError):  # the scheduler cancels; the round itself ends between two steps
            await asyncio.to_thread(consolidator.round)

    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler = AsyncIOScheduler(timezone=UTC)
    scheduler.add_job(
        once, "interval", seconds=seconds, id=_ROUND, max_instances=1, coalesce=True, next_run_time=datetime.now(UTC)
    )
    return scheduler


def hasten(scheduler: AsyncIOScheduler) -> None:
    """Begin the next round within SOON_SECONDS; many answers in a row bring no more than one."""
    soon = datetime.now(UTC) + timedelta(seconds=SOON_SECONDS)
    job = scheduler.get_job(_ROUND)
    if job is not None and job.next_run_time > soon:
        job.modify(next_run_time=soon)
