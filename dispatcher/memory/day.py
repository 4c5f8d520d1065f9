"""The memory of the day: what was said since the last night, and what people asked to be kept. One object a dispatcher, cheap until it is used.

It holds the SQL store, the day's embedder and the tombstone filter, and makes of them what a prompt takes (`DayContext`). Everything here may be
away: then `degraded` says so, and the release alone answers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import structlog

from dispatcher.memory.embedder import DayEmbedder
from dispatcher.memory.relevance import says_again
from dispatcher.memory.tombstones import Forgotten, hidden_by
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.text.format import CHARACTERS_PER_TOKEN
from shared.turns.records import Task, Turn

if TYPE_CHECKING:
    from dispatcher.memory.session_summary import SummaryWriter
    from dispatcher.memory.store.actions import Actions
    from dispatcher.memory.store.memories import Memories
    from dispatcher.memory.store.summaries import SessionSummary, Summaries
    from dispatcher.memory.store.turns import Turns
    from dispatcher.memory.today import DayTurns
    from dispatcher.memory.typed.actions import Acted, Acting, Outcome
    from dispatcher.memory.typed.memories import Remembering
    from dispatcher.releases.served import Memory as ServedMemory
    from shared.search.day_items import DayItems
    from shared.search.lookup import Recalled
    from shared.search.recall import DayRecall, OpenRelease

log = structlog.get_logger()

#: Memories that are shown because they bear on the message, besides those that every prompt of the chat has.
RELEVANT = 5
#: For how long the summary of a session is told as the conversation so far.
EARLIER_SECONDS = 86_400.0
#: A chat id that no chat has: the records refuse it.
NOBODY = "0"
#: Turns that are looked at when a memory is forgotten: they may say it again.
REPETITIONS = 200
#: An action's note is kept as long as its task may come again.
ACTIONS_KEPT_SECONDS = 8 * 86_400.0


@dataclass(frozen=True)
class DayContext:
    """What the day adds to a prompt; all empty where the day has nothing or cannot be asked."""

    facts: str = ""
    earlier: str = ""  # the summaries of this chat's sessions that were ended within a day
    relevant: str = ""
    items: DayItems | None = None
    hidden: frozenset[str] = frozenset()
    hidden_before: float | None = None
    known: frozenset[str] = frozenset()  # turns that the model has before it already
    degraded: list[str] = field(default_factory=list)
    unproven: str | None = None  # why nothing at all may be recalled: what is forgotten cannot be told


class Day:
    """Thread-safe. `served` is the release that is served, `writer` writes session summaries."""

    def __init__(
        self, settings: Settings, served: ServedMemory | None = None, writer: SummaryWriter | None = None
    ) -> None:
        self.settings = settings
        self.embedder = DayEmbedder(settings)
        self.forgotten = Forgotten(settings.hmem_state_dir)
        self.opened = False  # or tried to
        self._served, self._writer = served, writer
        self._pool = ThreadPoolExecutor(settings.max_concurrent_tasks, thread_name_prefix="day")
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="counting")

    @property
    def wanted(self) -> bool:
        return (self.settings.medium_url or "").strip().lower() != "none"

    @cached_property
    def _database(self) -> Any:
        from dispatcher.memory.store.database import Database

        return Database(self.settings.medium_url, self.settings.hmem_state_dir)

    @cached_property
    def turns(self) -> Turns:
        from dispatcher.memory.store.turns import Turns

        return Turns(self._database)

    @cached_property
    def summaries(self) -> Summaries:
        from dispatcher.memory.store.summaries import Summaries

        return Summaries(self._database)

    @cached_property
    def memories(self) -> Memories:
        from dispatcher.memory.store.memories import Memories

        return Memories(self._database)

    @cached_property
    def actions(self) -> Actions:
        from dispatcher.memory.store.actions import Actions

        return Actions(self._database)

    @cached_property
    def remembering(self) -> Remembering:
        from dispatcher.memory.typed.memories import Remembering

        return Remembering(self.memories, self.embedder, self.forgotten)

    @cached_property
    def _day_turns(self) -> DayTurns:
        from dispatcher.memory.today import DayTurns

        return DayTurns(self.settings, self.embedder, self.turns, self.summaries, self.recall)

    @cached_property
    def acting(self) -> Acting:
        from dispatcher.memory.typed.actions import Acting
        from dispatcher.memory.withholding import TurnTexts

        zone, texts = self.settings.timezone, TurnTexts(self.turns, self._release)
        return Acting(self.memories, self.actions, self.remembering, self.forgotten, zone, self.repeating, texts)

    @cached_property
    def recall(self) -> DayRecall:
        from shared.search.recall import DayRecall

        return DayRecall(self.settings)

    def open(self) -> None:
        """Load and connect what `context` needs, which is given a few hundred milliseconds only. Slow, and raises nothing."""
        self.embedder.open()
        try:
            self.remembering.held(NOBODY)
            self.items(NOBODY)
        except HmemError as error:
            log.warning("the medium store is away", reason=str(error))
        finally:
            self.opened = True

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._counting.shutdown(wait=True)  # what was shown is counted; the store's own time limits bound the wait
        for name in ("recall", "_database"):
            if name in self.__dict__:
                self.__dict__[name].close()
        self.embedder.close()

    def renew(self) -> None:
        """Keep nothing of what was read or asked so far. Who is using it ends on what it began with."""
        for name in ("remembering", "recall", "_day_turns", "acting"):  # what is made of another comes after it
            self.__dict__.pop(name, None)
        self.embedder.renew()
        if "_database" in self.__dict__:
            self._database.close()

    # What a prompt takes.

    def context(self, chat_id: str, message: str, session: str | None, *, count: bool = True) -> DayContext:
        """What the day adds; `session` is the one that is resumed. `count`: what is shown counts as accessed. Within MEMORY_DEADLINE_MS."""
        try:
            stones = self.forgotten.of(chat_id)
        except HmemError as error:
            return DayContext(unproven=str(error))
        hidden, before = hidden_by(stones)
        nothing = DayContext(hidden=hidden, hidden_before=before)
        if not self.wanted:
            return nothing
        asked = self._pool.submit(self._context, chat_id, message, session, nothing, count)
        try:
            return asked.result(timeout=self.settings.memory_deadline_ms / 1000)
        except FutureTimeout:
            asked.cancel()
            reason = f"no memory of the day: it did not answer within {self.settings.memory_deadline_ms} ms"
        except HmemError as error:
            reason = f"no memory of the day: {error}"
        except Exception as error:  # noqa: BLE001 - no memory is not no service
            reason = f"no memory of the day: {error!r}"
        return DayContext(hidden=hidden, hidden_before=before, degraded=[reason])

    def _context(self, chat_id: str, message: str, session: str | None, base: DayContext, count: bool) -> DayContext:
        from dispatcher.memory.typed.text import first_lines, prompt_order, prompt_text, relevant_text, shown

        now, zone = time.time(), self.settings.timezone
        at = self.turns.revisions(chat_id)
        held = self.remembering.held(chat_id, at.memories)
        facts = first_lines(prompt_text(held.memories, now, zone), self.settings.memory_tokens * CHARACTERS_PER_TOKEN)
        always = [memory for some in prompt_order(held.memories).values() for memory in some]
        relevant = ""
        if len(facts) > self._facts_room():  # else every one of them is shown anyway
            there = shown(always, facts, self._facts_room(), now, zone)
            bearing = self.remembering.relevant(chat_id, message, RELEVANT, now=now, beside=there, held=held)
            found = [memory for memory, _ in bearing]
            relevant = relevant_text(found, now, zone)
            if found and count:  # beside the answer: it takes a write to the disk
                self._counting.submit(self._count, chat_id, [memory.memory_id for memory in found], now)
        today = self._day_turns.today(chat_id, at)
        known = today.sessions.get(session, frozenset()) if session else frozenset()
        earlier = _earlier(today.ended, now - EARLIER_SECONDS)
        return DayContext(facts, earlier, relevant, today.items, base.hidden, base.hidden_before, known)

    def _count(self, chat_id: str, ids: Sequence[int], now: float) -> None:
        """Note that memories were shown."""
        try:
            self.memories.touch(chat_id, ids, now)
        except HmemError as error:
            log.warning("that memories were shown is not counted", memories=len(ids), reason=str(error))

    def _facts_room(self) -> int:
        """Characters of the share that facts and goals have of the budget when all else wants its own."""
        from dispatcher.prompt.budget import facts_room

        return facts_room(self.settings.memory_tokens)

    def items(self, chat_id: str) -> DayItems | None:
        """The chat's turns of the day, and summaries that became searchable; the same object until something changes."""
        return self._day_turns.today(chat_id).items

    def search(
        self,
        release: OpenRelease | None,
        chat_id: str,
        query: str,
        k: int,
        deadline_seconds: float | None = None,
        now: float | None = None,
        *,
        items: DayItems | None,
        hidden: Collection[str] = (),
        hidden_before: float | None = None,
        known: Collection[str] = (),
        since: float | None = None,
        until: float | None = None,
    ) -> Recalled:
        """Hits of the release, if there is one, and of the day's turns (`items`); the rest as `OpenRelease.recall`."""
        from shared.search.lookup import Recalled

        if release is None and not items:
            return Recalled()
        recall = partial(release.recall if release else self.recall.recall, chat_id, query, k, deadline_seconds, now)
        vector_of = None if self.settings.without_vectors else self.embedder.query
        return recall(
            day=items or None,
            hidden=hidden,
            hidden_before=hidden_before,
            known=known,
            vector_of=vector_of,
            since=since,
            until=until,
        )

    # What the dreamer does.

    def store_turns(self, turns: Sequence[Turn]) -> None:
        """Into the medium store, with language and vectors where they can be told; what is forgotten, also meanwhile, stays out."""
        kept = [turn for turn in turns if not self.forgotten.covers(turn)]
        self._day_turns.store(kept)
        for turn in kept:
            if self.forgotten.covers(turn):
                self.forget_copies(turn.chat_id, [turn.turn_id])

    def embed_missing(self, limit: int) -> None:
        """Vectors for what has none of the present model."""
        self.remembering.embed_missing(limit)
        self._day_turns.embed_missing(limit)

    def summarise_session(self, chat_id: str, session: str, turns: Sequence[Turn]) -> None:
        """Its summary into the store, once; one that was made while the session still went on makes way for it."""
        from dispatcher.memory.session_summary import SummaryWriter
        from dispatcher.memory.store.summaries import SessionSummary
        from shared.text.format import tokens

        text = (self._writer or SummaryWriter(self.settings)).write(turns)
        times, turn_ids = [turn.timestamp for turn in turns], tuple(turn.turn_id for turn in turns)
        self.summaries.store(
            SessionSummary(
                chat_id,
                session,
                text,
                min(times),
                max(times),
                time.time(),
                turn_ids,
                tokens=sum(tokens(turn.content) for turn in turns),
            )
        )
        if any(self.forgotten.covers(turn) for turn in turns):  # while it was written
            self.forget_copies(chat_id, turn_ids)
            return
        earlier = [one for one in self.summaries.containing(chat_id, turn_ids[:1]) if one.session == session]
        self.summaries.remove(chat_id, [one.summary_id for one in earlier if set(one.turn_ids) < set(turn_ids)])

    def prune(self, before: float) -> None:
        """Turns older than that which the release in use holds; notes of actions whose task cannot come again."""
        self.actions.prune(time.time() - ACTIONS_KEPT_SECONDS)
        if self._served is None:
            return
        with self._served.reading() as release:
            if release is not None:
                self.turns.prune(before, release.holds)

    # What the answer does.

    def act(self, task: Task, session: str, tags: Sequence[Any], now: float) -> Acted:
        """Act on an answer's tags, each once; StoreUnavailable if that cannot be done now. Those of an erased exchange are nobody's."""
        from dispatcher.memory.typed.actions import Acted

        acted = Acted() if self.forgotten.erased(task, now) else self.acting.on_tags(task, session, tags, now)
        if self.forgotten.erased(task, now):  # before, or meanwhile
            self._forget_made_by(task)
        if acted.forgotten:
            self.forget_copies(task.chat_id, acted.forgotten)
        return acted

    def act_later(self, record: dict[str, Any]) -> Acted:
        """Act on tags that were kept while the store was away."""
        from dispatcher.memory.typed.actions import parse_later

        task, session, tags, said_at = parse_later(record)
        return self.act(task, session, tags, said_at)

    def listing(self, chat_id: str, now: float) -> str:
        """What `/memory` shows."""
        from dispatcher.memory.typed.text import listing

        held = self.remembering.held(chat_id)
        every = {one.memory_id: one for one in held.every}
        newer = {memory_id: every[by] for memory_id, by in held.superseded.items()}
        return listing(held.shown, now, self.settings.timezone, newer)

    def add(self, task: Task, text: str, now: float) -> Outcome:
        """`/memory add`."""
        return self.acting.add(task, text, now)

    def forget_number(self, task: Task, number: int, now: float) -> Outcome:
        """`/memory forget N`, with the copies of the day."""
        outcome = self.acting.forget(task, number, now)
        self.forget_copies(task.chat_id, outcome.forgotten)
        return outcome

    def repeating(self, chat_id: str, text: str) -> list[str]:
        """Turns of release and day that say what a memory says, as far as they are found by it."""
        with self._release() as release:
            hits = self.search(release, chat_id, text, REPETITIONS, items=self.items(chat_id)).hits
        again = [hit for hit in hits if any(says_again(text, said) for said in hit.chunk.sayings)]
        return [one for hit in again for one in (*hit.chunk.turn_ids, *hit.also)]

    def _release(self) -> AbstractContextManager[OpenRelease | None]:
        return self._served.reading() if self._served else nullcontext()

    def forget_copies(self, chat_id: str, turn_ids: Collection[str]) -> None:
        """Take turns that are under a tombstone out of the medium store, with the summaries that were made of them."""
        if not turn_ids:
            return
        self.turns.remove(chat_id, turn_ids)
        made_of_them = self.summaries.containing(chat_id, turn_ids)
        self.summaries.remove(chat_id, [summary.summary_id for summary in made_of_them])

    def _forget_made_by(self, task: Task) -> None:
        """Take what the tags of a task have made out of the store."""
        for memory in self.memories.list(task.chat_id):
            if f"{task.task_id}:user" in (memory.source_turn or "").split():
                self.memories.delete(task.chat_id, memory.memory_id)
        self.actions.remove_task(task.chat_id, task.task_id)


def _earlier(ended: Sequence[SessionSummary], since: float) -> str:
    """Summaries of sessions that ended since then, in the order of time."""
    told = [summary for summary in ended if summary.ended_at >= since]
    return "\n".join(summary.text for summary in sorted(told, key=lambda summary: summary.ended_at))
