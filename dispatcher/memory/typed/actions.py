"""Acting on the tags of an answer, and on `/memory`: each effect once for (task id, number), whatever dies in between.

A write is planned outside the transaction (it may call an embedder and search the release), against one revision of the chat's memories. If
the revision has changed by the time of the transaction, the write is planned again. An effect and its outcome are one transaction of the store,
so a task that runs again reads its earlier outcome and gives the same answer. The tombstone is written first, under a unique id (repeating it
changes nothing): what is to be forgotten is hidden before anything else changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, KeysView
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.store.whose import speaker_of
from dispatcher.memory.typed.memories import Addition, GroundMoved
from dispatcher.memory.typed.sentences import (
    CORRECTED,
    DONE,
    FORGOTTEN,
    FORGOTTEN_AND_BACK,
    NO_NUMBER,
    NO_NUMBER_TO_FORGET,
    NO_OPEN_GOAL,
    quoted,
    saved,
)
from shared.text.translations import tr
from shared.turns.records import ROLES, Task, Tombstone

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.day.parts import DayParts
    from dispatcher.memory.store.memories import Memory

    #: Writes the effect of one tag and returns its outcome; GroundMoved if the plan is out of date.
    Effect = Callable[[Connection], "Outcome"]

#: Characters of a tombstone's id, as of a task's (shared/turns/records.py).
LONGEST_ID = 100


@dataclass(frozen=True)
class Outcome:
    """The result of one tag: a sentence for the person ("" for none), and the ids of the forgotten turns. `unmet`: something was to be forgotten, and
    no memory is like it: it may stand in that very message."""

    say: str = ""
    forgotten: tuple[str, ...] = ()
    unmet: bool = False

    def to_json(self) -> str:
        return orjson.dumps(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        record = orjson.loads(text)
        return cls(record["say"], tuple(record["forgotten"]), record["unmet"])


class Acting:
    """Raises StoreUnavailable if the store cannot be reached: nothing of the tag was done then, and it may be tried again."""

    def __init__(self, day: DayParts) -> None:
        self._day = day

    def add(self, task: Task, text: str, now: float, *, kind: str = "fact", **more: Any) -> Outcome:
        """`/memory add`, and `hmem memory add` with `more`: deadline (POSIX seconds), importance (1 to 5), priority."""

        def plan() -> Effect:
            planned = self._day.remembering.plan(
                task.chat_id, MemoryType(kind), text, now=now, **speaker_of(task), **more
            )
            return self._keeping(planned, lambda memory, new: saved(memory, planned.near, new=new))

        return self.once(task, 0, "add", plan, now)

    def correct(self, task: Task, number: int, text: str, now: float, source_turn: str | None = None) -> Outcome:
        """`hmem memory correct N`, `/memory edit N`: a new memory replaces this one, which stays known as what was believed before. A goal keeps
        its deadline, and each its speaker."""

        def plan() -> Effect:
            known = self._day.remembering.of_chat(task.chat_id)
            old = next((one for one in known.memories if one.number == number), None)
            if old is None:
                return sentence_only(tr(NO_NUMBER).format(number=number))
            more: dict[str, Any] = {
                "deadline": old.deadline if old.type != "fact" else None,
                "importance": old.importance,
                "priority": old.priority,
                "source_turn": source_turn,
                "user_id": old.user_id,
                "name": old.name,
            }
            planned = self._day.remembering.plan(task.chat_id, old.type, text, now=now, replaced=[old], **more)

            def say(memory: Memory, _: bool) -> str:
                return tr(CORRECTED).format(number=memory.number, text=quoted(memory), old=number)

            return self._keeping(planned, say)

        return self.once(task, 0, "correct", plan, now)

    def done(self, task: Task, number: int, now: float) -> Outcome:
        """`hmem memory done N`."""

        def effect(connection: Connection) -> Outcome:
            goal = self._day.memories.by_number(task.chat_id, number, connection=connection)
            if goal is None or not self._day.memories.complete(
                task.chat_id, goal.memory_id, now, connection=connection
            ):
                return Outcome(tr(NO_OPEN_GOAL).format(number=number))
            return Outcome(tr(DONE).format(text=quoted(goal)))

        return self.once(task, 0, "done", lambda: effect, now)

    def forget(self, task: Task, number: int, now: float) -> Outcome:
        """`/memory forget N`."""

        def plan() -> Effect:
            known = self._day.remembering.of_chat(task.chat_id)
            memory = next((one for one in known.every if one.number == number), None)
            if memory is None:
                return sentence_only(tr(NO_NUMBER_TO_FORGET).format(number=number))
            return self._forgetting(task, 0, memory, known.stored, now)

        return self.once(task, 0, "forget", plan, now)

    def once(self, task: Task, number: int, kind: str, plan: Callable[[], Effect], now: float) -> Outcome:
        """The outcome of the plan, or the earlier outcome. GroundMoved means that another writer has made progress, so the loop ends."""
        done = self._day.actions.outcome(task.chat_id, task.task_id, number)
        while done is None:
            effect = plan()
            with suppress(GroundMoved):
                done = self._day.actions.apply_once(
                    task.chat_id, task.task_id, number, kind, partial(_outcome_text, effect), now=now
                )
        return Outcome.from_json(done)

    def _keeping(self, planned: Addition, say: Callable[[Memory, bool], str]) -> Effect:
        """Write what is planned, and say it of the memory and whether it is new."""
        return lambda connection: Outcome(say(*self._day.remembering.carry_out(planned, connection)))

    def _forgetting(
        self,
        task: Task,
        number: int,
        memory: Memory,
        stored: str,
        now: float,
        *,
        brings_news: bool = False,
    ) -> Effect:
        """Forget a memory with the exchanges that it comes from, the turns that repeat it, and the exchange that asks unless that brings something
        to remember, too."""
        known = self._day.remembering.of_chat(task.chat_id)
        name = tombstone_id(memory, task.task_id, number)
        gone = self._hidden(task, memory, brings_news)
        others = [one for one in known.every if one is not memory and not gone.isdisjoint(one.sources)]
        replaced = [one for one in known.shown if one.superseded_by == memory.memory_id]
        again = "; ".join(map(quoted, replaced)) if memory.memory_id not in known.superseded else ""

        def effect(connection: Connection) -> Outcome:
            self._day.remembering.check(task.chat_id, stored, connection)
            if gone:
                self._day.forgotten.add(Tombstone(name, task.chat_id, now, turn_ids=frozenset(gone)))
            self._day.memories.delete(task.chat_id, memory.memory_id, connection=connection)
            for one in others:
                left = " ".join(turn for turn in one.sources if turn not in gone) or None
                self._day.memories.change(task.chat_id, one.memory_id, connection=connection, source_turn=left)
            return Outcome(tr(FORGOTTEN_AND_BACK if again else FORGOTTEN).format(again=again), tuple(gone))

        return effect

    def _hidden(self, task: Task, memory: Memory, brings_news: bool) -> KeysView[str]:
        """Ids of the turns that are hidden with a memory. What somebody else said of themselves in the same words stays."""
        again = [turn for text in memory.texts for turn in self._day.repeating(task.chat_id, text)]
        if memory.user_id:
            known = self._day.read_turns(task.chat_id, list(map(_question_of, again)))
            said_by = {turn_id: turn.user_id for turn_id, turn in known.items()}
            again = [one for one in again if said_by.get(_question_of(one)) == memory.user_id]
        asking = {f"{task.task_id}:{role}": None for role in ROLES}
        gone = {f"{turn.rpartition(':')[0]}:{role}": None for turn in memory.sources for role in ROLES}
        gone |= asking | dict.fromkeys(again)
        return {turn: None for turn in gone if not (brings_news and turn in asking)}.keys()


def _outcome_text(effect: Effect, connection: Connection) -> str:
    return effect(connection).to_json()


def sentence_only(sentence: str) -> Effect:
    return lambda _connection: Outcome(sentence)


def _question_of(turn_id: str) -> str:
    return f"{turn_id.rpartition(':')[0]}:user"


def tombstone_id(memory: Memory, task_id: str, number: int) -> str:
    """An id for each (task id, tag number) that names the memory without its words, so that the memory is no longer shown (memories.py)."""
    mark = f"f{number}-{memory.uid}-"
    if len(mark) + len(task_id) > LONGEST_ID:
        return mark + hashlib.sha256(task_id.encode()).hexdigest()[:32]
    return mark + task_id
