"""Requests for typed memories: the tags of an answer, and `/memory` with its listing, additions and removals."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property, partial
from typing import TYPE_CHECKING
from uuid import uuid4

from dispatcher.memory.typed.pages import MemoryEntry, MemoryPage, memory_entry, memory_page
from dispatcher.memory.typed.tags import AnswerTags, TagKind
from dispatcher.memory.typed.text import listing
from shared.turns.records import Task, Tombstone

if TYPE_CHECKING:
    from dispatcher.memory.day.parts import DayParts
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.typed.acting_on_tags import Acted, TagActing
    from dispatcher.memory.typed.actions import Outcome


def owner_task(chat_id: str) -> Task:
    """A task for what the owner asks beside the chat, in a terminal or on the page: it is carried out once."""
    return Task(f"owner-{uuid4()}", chat_id, "")


class MemoryRequests:
    """Thread-safe. StoreUnavailable if a request cannot be carried out now."""

    def __init__(self, day: DayParts) -> None:
        self._day = day

    @cached_property
    def acting(self) -> TagActing:
        from dispatcher.memory.typed.acting_on_tags import TagActing

        return TagActing(self._day)

    def act(self, answer: AnswerTags, *, later: bool = False) -> Acted:
        """Act on an answer's tags, each once; not on those of an erased exchange. `later`: they were stored in Redis while the store could not be
        reached, or an import brought them: not on those of a message that has been hidden since, either."""
        from dispatcher.memory.typed.acting_on_tags import Acted

        task = answer.task
        hides = any(tag.kind == TagKind.FORGET for tag in answer.tags)  # perhaps its own message
        gone = partial(self._day.forgotten.is_gone, task, answer.said_at, if_hidden=later and not hides)
        acted = Acted() if gone() else self.acting.on_tags(answer)
        if gone():  # before, or meanwhile
            self._forget_made_by(task)
        self._day.forget_copies(task.chat_id, acted.forgotten)
        return acted

    def listing(self, chat_id: str, now: float) -> str:
        """All memories of a chat with their numbers."""
        known = self._day.remembering.of_chat(chat_id)
        return listing(known.shown, now, self._day.zone_of(chat_id), known.successors)

    def page(self, chat_id: str, number: int, now: float) -> MemoryPage:
        """A page of that list."""
        return memory_page(self._day.remembering.of_chat(chat_id), number, now, self._day.zone_of(chat_id))

    def entry(self, chat_id: str, number: int, now: float) -> MemoryEntry | None:
        """All that is known of one memory; None if the chat has none of that number."""
        known = self._day.remembering.of_chat(chat_id)
        memory = next((one for one in known.shown if one.number == number), None)
        if memory is None:
            return None
        turns = self._day.read_turns(chat_id, memory.sources).values()
        sources = sorted((one for one in turns if not self._day.forgotten.covers(one)), key=lambda turn: turn.timestamp)
        return memory_entry(known, memory, sources, now, self._day.zone_of(chat_id))

    def made_of(self, chat_id: str, turn_ids: Collection[str] | None) -> list[Memory]:
        """The memories that come from these turns and no others; of None all."""
        every = self._day.remembering.of_chat(chat_id).shown
        return [one for one in every if turn_ids is None or (one.sources and set(one.sources) <= set(turn_ids))]

    def forget_turns(self, tombstone: Tombstone, made_before: float | None) -> None:
        """Remove the day's copies of the turns that a tombstone hides, and the memories that came from them. May be repeated.

        Of a whole chat these are all memories that were made before that time (POSIX seconds).
        """
        chat_id, memories = tombstone.chat_id, self._day.memories
        with memories.transaction() as connection:
            for one in memories.list(chat_id, connection=connection):
                left = [turn for turn in one.sources if turn not in tombstone.named]
                whole = tombstone.turn_ids is None and made_before is not None and one.created < made_before
                if whole or (one.sources and not left):
                    memories.delete(chat_id, one.memory_id, connection=connection)
                elif len(left) < len(one.sources):
                    memories.change(chat_id, one.memory_id, connection=connection, source_turn=" ".join(left))
        times = self._day.turns.times(chat_id)
        self._day.forget_copies(chat_id, [turn for turn, at in times.items() if tombstone.reaches(turn, at)])

    def forget_number(self, task: Task, number: int, now: float) -> Outcome:
        """`/memory forget N`, including the day's copies of the turns."""
        outcome = self.acting.forget(task, number, now)
        self._day.forget_copies(task.chat_id, outcome.forgotten)
        return outcome

    def _forget_made_by(self, task: Task) -> None:
        """Remove from the store what the tags of a task created."""
        memories = self._day.memories
        for memory in memories.list(task.chat_id):
            if f"{task.task_id}:user" in memory.sources:
                memories.delete(task.chat_id, memory.memory_id)
        for rows in self._day.of_features:
            for one in rows.rows(task.chat_id):
                if one.source_turn == f"{task.task_id}:user":
                    rows.remove(task.chat_id, one.number)
        self._day.actions.remove_task(task.chat_id, task.task_id)
