"""The rows of a table that a feature contributes (memory/hooks.py): each change is noted for the archive in the transaction that makes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from dispatcher.memory.hooks import FeatureTable
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.event_outbox import new_uid, note_changes
from dispatcher.memory.store.rows import checked_chat, clean, enter, hold
from dispatcher.memory.store.tables import chats
from shared.turns.events import EventChange


class FeatureRows:
    """StoreUnavailable if the store cannot be reached."""

    def __init__(self, database: Database, of: FeatureTable) -> None:
        self._database, self.of, self.columns = database, of, of.table.c

    def insert(self, values: Mapping[str, Any], connection: Connection | None = None) -> Row[Any]:
        """The row, with its number and uid."""
        chat_id = checked_chat(values["chat_id"])
        with self._database.joined(connection) as used:
            enter(used, chat_id, "last_row")
            number = used.execute(sa.select(chats.c.last_row).where(chats.c.chat_id == chat_id)).scalar_one()
            row = {name: clean(value) if isinstance(value, str) else value for name, value in values.items()}
            row |= {"number": number, "uid": (uid := new_uid())}
            made = used.execute(sa.insert(self.of.table).values(row).returning(*self.columns)).one()
            note_changes(used, self.of.kind, chat_id, [(uid, number)], EventChange.MADE)
            return made

    def rows(self, chat_id: str | None = None, connection: Connection | None = None) -> list[Row[Any]]:
        """All of one chat or of all chats, in the order in which they were made."""
        where = [] if chat_id is None else [self.columns.chat_id == checked_chat(chat_id)]
        query = sa.select(self.of.table).where(*where).order_by(*self.of.table.primary_key)
        with self._database.joined(connection, writes=False) as used:
            return list(used.execute(query))

    def noted(self, connection: Connection, statement: Any, what: EventChange) -> bool:
        """Carry out an UPDATE or DELETE; whether it was about any row."""
        returned = self.columns.chat_id, self.columns.uid, self.columns.number
        changed = connection.execute(statement.returning(*returned)).all()
        for chat_id, uid, number in changed:
            note_changes(connection, self.of.kind, chat_id, [(uid, number)], what)
        return bool(changed)

    def remove(self, chat_id: str, number: int, connection: Connection | None = None) -> bool:
        """Whether it existed."""
        these = sa.delete(self.of.table).where(
            self.columns.chat_id == checked_chat(chat_id), self.columns.number == number
        )
        with self._database.joined(connection) as used:
            hold(used, chat_id)
            return self.noted(used, these, EventChange.HIDDEN)
