"""The rows of a table that a feature contributes (memory/hooks.py): each change is noted for the archive in the transaction that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from dispatcher.memory.hooks import FeatureTable
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.event_outbox import NotedRows
from dispatcher.memory.store.rows import checked_chat, clean, hold
from shared.turns.events import EventChange


class FeatureRows(NotedRows):
    """StoreUnavailable if the store cannot be reached."""

    def __init__(self, database: Database, of: FeatureTable) -> None:
        super().__init__(database, of.table, of.kind, "last_row")
        self.of, self.columns = of, of.table.c

    def insert(self, values: Mapping[str, Any], connection: Connection | None = None) -> Row[Any]:
        """The row, with its number and uid."""
        row = {name: clean(value) if isinstance(value, str) else value for name, value in values.items()}
        with self._database.joined(connection) as used:
            return self._insert(used, row | {"chat_id": values["chat_id"]})

    def rows(self, chat_id: str | None = None, connection: Connection | None = None) -> list[Row[Any]]:
        """All of one chat or of all chats, in the order in which they were made."""
        where = [] if chat_id is None else [self.columns.chat_id == checked_chat(chat_id)]
        return [*self._rows(sa.select(self.of.table).where(*where).order_by(*self.of.table.primary_key), connection)]

    def remove(self, chat_id: str, number: int, connection: Connection | None = None) -> bool:
        """Whether it existed."""
        these = sa.delete(self.of.table).where(
            self.columns.chat_id == checked_chat(chat_id), self.columns.number == number
        )
        with self._database.joined(connection) as used:
            hold(used, chat_id)
            return self.noted(used, these, EventChange.HIDDEN) > 0
