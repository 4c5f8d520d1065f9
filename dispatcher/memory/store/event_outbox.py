"""The outbox of events: which memories and rows of features have changed, noted in the transaction that changes them, until Redis has their events.

An event says how its subject is now, so several changes are one event, and handing one over again changes nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Table

from dispatcher.memory.hooks import feature_tables
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.rows import StoredRows, batches, checked_chat, enter, insert, json_list, json_text
from dispatcher.memory.store.tables import chats, event_outbox, memories
from shared.turns.events import Event, EventChange, EventKind

#: Columns that are not in a state, beside the store's own ids: of a memory what can be made again, and what the event has beside it.
_LEFT_OUT = ("chat_id", "number", "uid", "embedding", "embedding_model", "superseded_by")


def subjects() -> dict[str, Table]:
    """Kind of an event → the table of what it is about."""
    return {EventKind.MEMORY.value: memories, **{one.kind: one.table for one in feature_tables()}}


def _new_uid() -> str:
    """The id of a new subject."""
    return uuid.uuid4().hex[:16]


class NotedRows(StoredRows):
    """A table whose changes are noted for the archive in the transaction that makes them. `kind`: of its events; `counters`: of the chat, which a new
    row increases; the first one gives its number."""

    def __init__(self, database: Database, table: Table, kind: str, *counters: str) -> None:
        super().__init__(database)
        self._table, self._kind, self._counters = table, kind, counters

    def _insert(self, connection: Connection, values: Mapping[str, Any]) -> Row[Any]:
        """The new row, with its number and uid."""
        number = enter(connection, checked_chat(values["chat_id"]), *self._counters)
        row = {**values, "number": number, "uid": _new_uid()}
        made = connection.execute(sa.insert(self._table).values(row).returning(*self._table.c)).one()
        self._note(connection, [made], EventChange.MADE)
        return made

    def noted(self, connection: Connection, statement: Any, what: EventChange | None) -> int:
        """Carry out an UPDATE or DELETE, after which `what` became of its rows (None: nothing that a person would miss); how many they are."""
        named = self._table.c.chat_id, self._table.c.uid, self._table.c.number
        changed = connection.execute(statement.returning(*named)).all()
        if what and changed:
            self._note(connection, changed, what)
        return len(changed)

    def _note(self, connection: Connection, changed: Iterable[Row[Any]], what: EventChange) -> None:
        """A mere use does not hide another change that waits."""
        same = {"kind": self._kind, "what": what.value, "at": time.time()}
        rows = [
            {**same, "uid": row.uid, "chat_id": row.chat_id, "number": row.number, "mark": _new_uid()}
            for row in changed
        ]
        statement = insert(connection, event_outbox)
        renewed = ("mark",) if what is EventChange.USED else ("what", "at", "mark")
        values = {name: statement.excluded[name] for name in renewed}
        connection.execute(statement.on_conflict_do_update(index_elements=["kind", "uid"], set_=values), rows)


@dataclass(frozen=True)
class WaitingEvent:
    """An event, and the mark of the change that it tells of."""

    event: Event
    mark: str


class EventOutbox(StoredRows):
    """StoreUnavailable if the store cannot be reached."""

    def waiting(self, limit: int) -> list[WaitingEvent]:
        """The events that wait longest, each with the state of its subject now; those of a feature that is not there stay."""
        tables = subjects()
        query = sa.select(event_outbox).where(event_outbox.c.kind.in_(tables)).order_by(event_outbox.c.at).limit(limit)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
            states = {
                (kind, uid): state
                for kind, table in tables.items()
                for uid, state in _states(connection, table, [row.uid for row in rows if row.kind == kind])
            }
        return [
            WaitingEvent(
                Event(
                    row.kind, row.uid, row.chat_id, EventChange(row.what), row.at, states.get((row.kind, row.uid)), row.number
                ),
                row.mark,
            )
            for row in rows
        ]  # fmt: skip

    def remove(self, handed_over: Iterable[WaitingEvent]) -> None:
        """Take out the ones that have not changed again since."""
        with self._database.begin() as connection:
            for some in batches(one.mark for one in handed_over):
                connection.execute(sa.delete(event_outbox).where(event_outbox.c.mark.in_(some)))

    def put_back(self, kind: str, chat_id: str, events: list[Event]) -> int:
        """Make rows of the events of a chat, as far as the store does not have them; how many. One whose subject is gone only keeps its number from
        being used again. One transaction."""
        table = subjects()[kind]
        counter = "last_memory" if table is memories else "last_row"
        made = 0
        with self._database.begin() as connection:
            enter(connection, chat_id, "memories_changed")
            known = {
                row.uid: row.number
                for row in connection.execute(sa.select(table.c.uid, table.c.number).where(table.c.chat_id == chat_id))
            }
            last = connection.execute(sa.select(chats.c[counter]).where(chats.c.chat_id == chat_id)).scalar_one()
            last = max([last, *(one.number for one in events)])
            for one in events:
                if one.state is None or one.id in known:
                    continue
                number = one.number
                if number in known.values():  # of a store that was lost and begun anew
                    number = last = last + 1
                known[one.id], made = number, made + 1
                connection.execute(sa.insert(table).values(_row(table, one, number)))
            values = {counter: last}
            connection.execute(sa.update(chats).where(chats.c.chat_id == chat_id).values(values))
            if table is memories:
                _link(connection, events)
        return made


def _states(connection: Connection, table: Table, uids: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(uid, state) of the rows that are there."""
    left_out = {*_LEFT_OUT, *table.primary_key.columns.keys()}
    for some in batches(uids):
        rows = connection.execute(sa.select(table).where(table.c.uid.in_(some))).all()
        newer = _newer(connection, rows) if table is memories else {}
        for row in rows:
            state = {name: value for name, value in row._asdict().items() if name not in left_out and value is not None}
            if "wordings" in state:
                state["wordings"] = list(json_list(state["wordings"]))
            if by := newer.get(row.uid):
                state["replaced_by"] = by
            yield row.uid, state


def _newer(connection: Connection, rows: Iterable[Row[Any]]) -> dict[str, str]:
    """Uid of each of these memories that is replaced → uid of the one that took its place."""
    by = {row.uid: row.superseded_by for row in rows if row.superseded_by is not None}
    query = sa.select(memories.c.memory_id, memories.c.uid).where(memories.c.memory_id.in_(by.values()))
    uids: dict[int, str] = {row.memory_id: row.uid for row in connection.execute(query)}
    return {uid: uids[memory_id] for uid, memory_id in by.items() if memory_id in uids}


def _row(table: Table, event: Event, number: int) -> dict[str, Any]:
    """The row of an event's state; what this program does not know of it is left out."""
    state = {name: value for name, value in (event.state or {}).items() if name in table.c}
    if "wordings" in state:
        state["wordings"] = json_text(state["wordings"])
    return {**state, "chat_id": event.chat_id, "uid": event.id, "number": number}


def _link(connection: Connection, events: list[Event]) -> None:
    """Say of replaced memories which one took their place."""
    for one in events:
        if newer := (one.state or {}).get("replaced_by"):
            by = sa.select(memories.c.memory_id).where(memories.c.uid == newer, memories.c.chat_id == one.chat_id)
            where = (memories.c.uid == one.id, memories.c.chat_id == one.chat_id)
            connection.execute(sa.update(memories).where(*where).values(superseded_by=by.scalar_subquery()))
