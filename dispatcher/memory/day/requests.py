"""Requests for typed memories: the tags of an answer, and `/memory` with its listing, additions and removals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from zoneinfo import ZoneInfo

from dispatcher.memory.day.stores import DayStores
from dispatcher.memory.tombstones import Forgotten
from shared.turns.records import Task

if TYPE_CHECKING:
    from dispatcher.memory.typed.actions import Acted, Acting, Outcome
    from dispatcher.memory.typed.memories import Remembering


def owner_task(chat_id: str) -> Task:
    """A task for what the owner asks beside the chat, in a terminal or on the page: it is carried out once."""
    return Task(f"owner-{uuid4()}", chat_id, "")


class MemoryRequests:
    """Thread-safe. StoreUnavailable if a request cannot be carried out now."""

    def __init__(
        self,
        stores: DayStores,
        remembering: Remembering,
        acting: Acting,
        forgotten: Forgotten,
        zone_of: Callable[[str], ZoneInfo],
    ) -> None:
        self._stores, self._remembering, self._acting = stores, remembering, acting
        self._forgotten, self._zone_of = forgotten, zone_of

    def act(self, task: Task, session: str, tags: Sequence[Any], now: float) -> Acted:
        """Act on an answer's tags, each once. Tags of an erased exchange are ignored."""
        from dispatcher.memory.typed.actions import Acted

        acted = Acted() if self._forgotten.erased(task, now) else self._acting.on_tags(task, session, tags, now)
        if self._forgotten.erased(task, now):  # before, or meanwhile
            self._forget_made_by(task)
        if acted.forgotten:
            self._stores.forget_copies(task.chat_id, acted.forgotten)
        return acted

    def act_later(self, record: dict[str, Any]) -> Acted:
        """Act on tags that were stored in Redis while the store could not be reached."""
        from dispatcher.memory.typed.actions import parse_later

        task, session, tags, answered_at = parse_later(record)
        return self.act(task, session, tags, answered_at)

    def listing(self, chat_id: str, now: float) -> str:
        """The answer to `/memory`."""
        from dispatcher.memory.typed.text import listing

        known = self._remembering.of_chat(chat_id)
        every = {one.memory_id: one for one in known.every}
        newer = {memory_id: every[by] for memory_id, by in known.superseded.items()}
        return listing(known.shown, now, self._zone_of(chat_id), newer)

    def add(self, task: Task, text: str, now: float) -> Outcome:
        """`/memory add`."""
        return self._acting.add(task, text, now)

    def forget_number(self, task: Task, number: int, now: float) -> Outcome:
        """`/memory forget N`, including the day's copies of the turns."""
        outcome = self._acting.forget(task, number, now)
        self._stores.forget_copies(task.chat_id, outcome.forgotten)
        return outcome

    def _forget_made_by(self, task: Task) -> None:
        """Remove from the store what the tags of a task created."""
        memories = self._stores.memories
        for memory in memories.list(task.chat_id):
            if f"{task.task_id}:user" in (memory.source_turn or "").split():
                memories.delete(task.chat_id, memory.memory_id)
        for one in list(self._stores.schedules.every(task.chat_id)):
            if one.source_turn == f"{task.task_id}:user":
                self._stores.schedules.remove(task.chat_id, one.number)
        self._stores.actions.remove_task(task.chat_id, task.task_id)
