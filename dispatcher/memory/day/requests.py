"""What people ask of their typed memories: the tags of an answer, and `/memory` with its listing, additions and removals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from dispatcher.memory.day.stores import DayStores
from dispatcher.memory.tombstones import Forgotten
from shared.turns.records import Task

if TYPE_CHECKING:
    from dispatcher.memory.typed.actions import Acted, Acting, Outcome
    from dispatcher.memory.typed.memories import Remembering


class MemoryRequests:
    """Thread-safe. StoreUnavailable where a request cannot be carried out now."""

    def __init__(
        self, stores: DayStores, remembering: Remembering, acting: Acting, forgotten: Forgotten, zone: ZoneInfo
    ) -> None:
        self._stores, self._remembering, self._acting = stores, remembering, acting
        self._forgotten, self._zone = forgotten, zone

    def act(self, task: Task, session: str, tags: Sequence[Any], now: float) -> Acted:
        """Act on an answer's tags, each once. Those of an erased exchange are nobody's."""
        from dispatcher.memory.typed.actions import Acted

        acted = Acted() if self._forgotten.erased(task, now) else self._acting.on_tags(task, session, tags, now)
        if self._forgotten.erased(task, now):  # before, or meanwhile
            self._forget_made_by(task)
        if acted.forgotten:
            self._stores.forget_copies(task.chat_id, acted.forgotten)
        return acted

    def act_later(self, record: dict[str, Any]) -> Acted:
        """Act on tags that were kept while the store could not be reached."""
        from dispatcher.memory.typed.actions import parse_later

        task, session, tags, said_at = parse_later(record)
        return self.act(task, session, tags, said_at)

    def listing(self, chat_id: str, now: float) -> str:
        """What `/memory` shows."""
        from dispatcher.memory.typed.text import listing

        held = self._remembering.held(chat_id)
        every = {one.memory_id: one for one in held.every}
        newer = {memory_id: every[by] for memory_id, by in held.superseded.items()}
        return listing(held.shown, now, self._zone, newer)

    def add(self, task: Task, text: str, now: float) -> Outcome:
        """`/memory add`."""
        return self._acting.add(task, text, now)

    def forget_number(self, task: Task, number: int, now: float) -> Outcome:
        """`/memory forget N`, with the copies of the day."""
        outcome = self._acting.forget(task, number, now)
        self._stores.forget_copies(task.chat_id, outcome.forgotten)
        return outcome

    def _forget_made_by(self, task: Task) -> None:
        """Take what the tags of a task have made out of the store."""
        memories = self._stores.memories
        for memory in memories.list(task.chat_id):
            if f"{task.task_id}:user" in (memory.source_turn or "").split():
                memories.delete(task.chat_id, memory.memory_id)
        self._stores.actions.remove_task(task.chat_id, task.task_id)
