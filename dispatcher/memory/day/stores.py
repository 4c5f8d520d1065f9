"""The tables of the day store, connected when the first of them is used."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from shared.config.settings import Settings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.actions import Actions
    from dispatcher.memory.store.database import Database
    from dispatcher.memory.store.event_outbox import EventOutbox
    from dispatcher.memory.store.memories import Memories
    from dispatcher.memory.store.schedules import Schedules
    from dispatcher.memory.store.summaries import Summaries
    from dispatcher.memory.store.turns import Turns


class DayStores:
    """One database and its tables. Thread-safe; StoreUnavailable if the store cannot be reached."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def database(self) -> Database:
        from dispatcher.memory.store.database import Database

        return Database(self.settings.day_store_url, self.settings.hmem_state_dir)

    @cached_property
    def turns(self) -> Turns:
        from dispatcher.memory.store.turns import Turns

        return Turns(self.database)

    @cached_property
    def summaries(self) -> Summaries:
        from dispatcher.memory.store.summaries import Summaries

        return Summaries(self.database)

    @cached_property
    def memories(self) -> Memories:
        from dispatcher.memory.store.memories import Memories

        return Memories(self.database)

    @cached_property
    def actions(self) -> Actions:
        from dispatcher.memory.store.actions import Actions

        return Actions(self.database)

    @cached_property
    def schedules(self) -> Schedules:
        from dispatcher.memory.store.schedules import Schedules

        return Schedules(self.database)

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction for several reads that belong together."""
        return self.database.reading()

    def forget_copies(self, chat_id: str, turn_ids: Collection[str]) -> None:
        """Remove forgotten turns from the store, with the summaries made of them."""
        if not turn_ids:
            return
        self.turns.remove(chat_id, turn_ids)
        made_of_them = self.summaries.containing(chat_id, turn_ids)
        self.summaries.remove(chat_id, [summary.summary_id for summary in made_of_them])

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        if "database" in self.__dict__:
            self.database.close()

    @cached_property
    def event_outbox(self) -> EventOutbox:
        from dispatcher.memory.store.event_outbox import EventOutbox

        return EventOutbox(self.database)
