"""Carries out what a model wants to change of a chat's typed memories, each change once, after code has judged it (checks.py).

A change makes one new memory, whose session is the night's name (`night-17`), and which replaces the memories it names: none is deleted, and what is
replaced stays known as what was believed before. Taking a change back deletes that one memory; what it had replaced is valid again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dispatcher.features.dream import checks
from dispatcher.features.dream.records import Carried
from dispatcher.memory.store.memories import MemoryType
from dispatcher.memory.store.whose import speaker_of
from dispatcher.memory.typed.actions import Outcome, sentence_only
from shared.text.dates.calendar_days import end_of_day
from shared.text.format import one_line
from shared.turns.note_changes import Change, Dream, read_changes
from shared.turns.records import Task

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.actions import Effect

#: Begins the session of what a night made.
NIGHT = "night-"
#: Messages that one change may name; further ones are not read.
MOST_MESSAGES = 8
#: The outcome of a change that its owner does not want.
DECLINED = "declined"


def task_of(dream: Dream) -> Task:
    """By which each change is carried out once."""
    return Task(f"dream-{dream.run}", dream.chat_id, "")


def changes_of(dream: Dream) -> tuple[dict[int, Change], Counter[str]]:
    """What the answer says, by number; and how much of it is no change, as it is counted."""
    try:
        found, strange = read_changes(dream.answer)
    except ValueError:
        found, strange = [], 1
    return dict(enumerate(found, 1)), Counter({checks.UNREADABLE: strange} if strange else {})


class Dreaming:
    """StoreUnavailable if the store cannot be reached: then nothing is done, and it may be tried again."""

    def __init__(self, day: DayMemory) -> None:
        self.day = day

    def carry_out(self, dream: Dream) -> Carried:
        """Every change that may be; may be repeated."""
        changes, unreadable = changes_of(dream)
        carried, weight = Carried(refused=unreadable), 0
        for number, change in changes.items():
            reason = self.carry_out_one(dream, number, change, weight)
            if reason:
                carried.refused[reason] += 1
            else:
                carried.changed += 1
                weight += checks.weight_of(change)
        return carried

    def carry_out_one(self, dream: Dream, number: int, change: Change, weight: int = 0) -> str:
        """Why it was not carried out, "" if it was; `weight`: how many memories those before it have changed."""
        plan = partial(self._plan, dream, change, weight)
        return self.day.acting.once(task_of(dream), number, "dream", plan, time.time()).say

    def decline(self, dream: Dream, number: int) -> None:
        self.day.acting.once(task_of(dream), number, "dream", lambda: sentence_only(DECLINED), time.time())

    def undecided(self, dream: Dream) -> tuple[dict[int, Change], Counter[str]]:
        """(number → change that can be carried out now and was not decided yet; why others cannot)."""
        dreamt = task_of(dream).task_id
        done = {number for _, task, number, _, _ in self.day.actions.every(dream.chat_id) if task == dreamt}
        (changes, refused), found, weight = changes_of(dream), dict[int, Change](), 0
        for number, change in changes.items():
            if number in done:
                continue
            if reason := checks.why_refused(change, self.evidence(dream, change), len(dream.notes), weight):
                refused[reason] += 1
            else:
                found[number] = change
                weight += checks.weight_of(change)
        return found, refused

    def is_outdated(self, dream: Dream) -> bool:
        """Whether something that it may have words of was forgotten since."""
        turns = set(dream.turns)
        return any(
            not turns.isdisjoint(one.named) or (one.turn_ids is None and one.created_at >= dream.at)
            for one in self.day.forgotten.of(dream.chat_id)
        )

    def take_back(self, task: Task, numbers: Sequence[int]) -> list[int]:
        """Undo the changes that made these memories; the numbers of the ones taken back."""
        return [number for number in numbers if self._take_back(task, number)]

    def _take_back(self, task: Task, number: int) -> bool:
        memories = self.day.memories

        def effect(connection: Connection) -> Outcome:
            found = memories.by_number(task.chat_id, number, connection=connection)
            if found is None or not (found.session or "").startswith(NIGHT) or found.superseded_by is not None:
                return Outcome("no change of a night")
            memories.delete(task.chat_id, found.memory_id, connection=connection)
            return Outcome()

        return not self.day.acting.once(task, number, "undo", lambda: effect, time.time()).say

    def _plan(self, dream: Dream, change: Change, weight: int) -> Effect:
        evidence = self.evidence(dream, change)
        if reason := checks.why_refused(change, evidence, len(dream.notes), weight):
            return sentence_only(reason)
        remembering = self.day.remembering
        kind, text, more = self.planned_row(dream, change, evidence)
        said_at = max(turn.timestamp for turn in evidence.turns)
        planned = remembering.plan(
            dream.chat_id, MemoryType(kind), text, now=said_at, replaced=evidence.memories, **more
        )
        if planned.same is not None:  # another note says it already; a change that can be taken back makes its own
            return sentence_only(checks.KNOWN)
        planned = replace(planned, near=None)

        def effect(connection: Connection) -> Outcome:
            remembering.carry_out(planned, connection)
            return Outcome()

        return effect

    def evidence(self, dream: Dream, change: Change) -> checks.ChangeEvidence:
        """What a change names: the memories that are valid, and its messages; none of these if one is not there, or forgotten."""
        given = list(dict.fromkeys(change.messages))[:MOST_MESSAGES]
        named = [dream.turns[one - 1] for one in given if 1 <= one <= len(dream.turns)]
        read = self.day.read_turns(dream.chat_id, named)
        turns = [turn for one in named if (turn := read.get(one)) and not self.day.forgotten.covers(turn)]
        turns = turns if len(turns) == len(given) else []
        valid = {one.number: one for one in self.day.remembering.of_chat(dream.chat_id).memories}
        memories = tuple(valid[number] for number in dict.fromkeys(change.notes) if number in valid)
        zone, owners = self.day.zone_of(dream.chat_id), self.day.settings.owner_ids
        return checks.ChangeEvidence(turns, memories, zone, owners)

    def planned_row(
        self, dream: Dream, change: Change, evidence: checks.ChangeEvidence
    ) -> tuple[str, str, dict[str, Any]]:
        """The new memory (type, text, further columns): whose it is follows from what it replaces, else from who said it."""
        old, said = evidence.memories, evidence.said[0]
        until = checks.day_of(change.until)
        sources = [*(one for memory in old for one in memory.sources), *(turn.turn_id for turn in evidence.turns)]
        if old:
            whose: dict[str, Any] = {"user_id": old[0].user_id, "name": old[0].name}
        else:
            whose = speaker_of(
                Task(said.task_id, said.chat_id, "", user_id=said.user_id, name=said.name, origin=said.origin)
            )
        deadlines = [one.deadline for one in old if one.deadline is not None]
        deadline = end_of_day(until, evidence.zone) if until else max(deadlines, default=None)
        more = {
            "deadline": deadline,
            "category": "until" if until else next((one.category for one in old), None),
            "importance": max((one.importance for one in old), default=3),
            "priority": max((one.priority for one in old), default=0),
            "session": f"{NIGHT}{dream.run}",
            "reminded_at": next((one.reminded_at for one in old if one.deadline == deadline), None),
            "source_turn": " ".join(dict.fromkeys(sources)),
            **whose,
        }
        text = old[0].text if change.do == "end" else one_line(change.text)
        return str(old[0].type) if old else "fact", text, more


def night_of(memory: Memory) -> int | None:
    """The night that made a memory; None for any other."""
    name = (memory.session or "").removeprefix(NIGHT)
    return int(name) if name != memory.session and name.isdigit() else None
