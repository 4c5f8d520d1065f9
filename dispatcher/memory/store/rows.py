"""Shared code of the tables: chat ids checked on every read and write, counters for each chat, vectors that are filled in later."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, Row, Table
from sqlalchemy.dialects import postgresql, sqlite

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.tables import BATCH, chats, summaries
from shared.errors import InvalidInput
from shared.text.format import storable
from shared.text.logs import Logger
from shared.turns.records import dumps, loads_object

log = Logger()

#: The revision of a chat that has no rows.
NO_REVISION = "0"


def checked_chat(chat_id: str) -> str:
    """The chat id unchanged; InvalidInput for one that an engine cannot store unchanged."""
    if not chat_id or storable(chat_id) != chat_id:
        raise InvalidInput(
            f"{chat_id!r} is not a chat id: it is empty or contains a character that cannot be stored. Give the chat's exact id."
        )
    return chat_id


def own(rows: Iterable[Any], chat_id: str) -> Iterator[Row[Any]]:
    """The rows of this chat. Every query names the chat; this is a second check."""
    for row in rows:
        if row.chat_id == chat_id:
            yield row
        else:
            log.error("a row of another chat was left out of a result", chat=chat_id)


def batches(ids: Iterable[Any]) -> Iterator[list[Any]]:
    """The distinct ids, in batches for one statement."""
    listed = list(dict.fromkeys(ids))
    for first in range(0, len(listed), BATCH):
        yield listed[first : first + BATCH]


def clean(text: str | None) -> str | None:
    return None if text is None else storable(text)


def json_text(value: Any) -> str:
    """JSON as ASCII text: characters that no engine can store are escaped."""
    return storable(dumps(value).decode("utf-8"))


def json_object(text: str) -> dict[str, Any]:
    return {} if text == "{}" else loads_object(text.encode("utf-8"))


def json_list(text: str) -> tuple[str, ...]:
    return tuple(orjson.loads(text))


def insert(connection: Connection, table: Table) -> Any:
    """The engine's own INSERT, which supports ON CONFLICT."""
    return inserting(connection.dialect.name, table)


def inserting(dialect: str, table: Table) -> Any:
    return (sqlite.insert if dialect == "sqlite" else postgresql.insert)(table)


def enter(connection: Connection, chat_id: str, *counters: str) -> int:
    """Start writing a chat's rows: create its counters if it has none, and count the change; the value of the first one."""
    entering = _entering(connection.dialect.name, counters)
    return int(connection.execute(entering, _new_chat(chat_id) | dict.fromkeys(counters, 1)).scalar_one())


@cache
def _entering(dialect: str, counters: Sequence[str]) -> Any:
    """Built once, because every write uses it."""
    counted = {counter: chats.c[counter] + 1 for counter in counters}
    made = inserting(dialect, chats).on_conflict_do_update(index_elements=["chat_id"], set_=counted)
    return made.returning(chats.c[counters[0]])


def _new_chat(chat_id: str) -> dict[str, Any]:
    """Its counters begin with 0."""
    return {"chat_id": chat_id, "epoch": uuid.uuid4().hex}


def change(connection: Connection, chat_id: str, counter: str) -> None:
    """Count a change of the chat's rows (no effect for a chat without rows). Call it first in every transaction, like `enter`: in PostgreSQL
    it blocks the chat's other writers until the end, so that no two of them wait for each other."""
    connection.execute(sa.update(chats).where(chats.c.chat_id == chat_id).values({counter: chats.c[counter] + 1}))


def hold(connection: Connection, chat_id: str) -> None:
    """Block the chat's other writers without counting a change."""
    connection.execute(sa.select(chats.c.chat_id).where(chats.c.chat_id == chat_id).with_for_update())


@dataclass(frozen=True)
class Revisions:
    """The revisions of a chat's rows: texts that differ after every change, NO_REVISION for a chat without rows."""

    turns: str = NO_REVISION
    memories: str = NO_REVISION
    summarised: bool = False  # whether the chat has summaries


#: Built once: building a statement takes as long as running it.
_REVISIONS = sa.select(
    chats.c.epoch,
    chats.c.turns_changed,
    chats.c.memories_changed,
    sa.exists().where(summaries.c.chat_id == sa.bindparam("chat")),
).where(chats.c.chat_id == sa.bindparam("chat"))


def revisions_of(connection: Connection, chat_id: str) -> Revisions:
    row = connection.execute(_REVISIONS, {"chat": chat_id}).first()
    return Revisions(f"{row[0]}.{row[1]}", f"{row[0]}.{row[2]}", bool(row[3])) if row else Revisions()


def unchanged(connection: Connection, chat_id: str, revision: str) -> bool:
    """Whether the chat's memories still have this revision; if so, other writers of the chat are blocked until the transaction ends.

    For a chat without rows its counters are made, as the first writer does: only one of two can.
    """
    if revision != NO_REVISION:
        hold(connection, chat_id)
        return revisions_of(connection, chat_id).memories == revision
    made = insert(connection, chats).values(_new_chat(chat_id)).on_conflict_do_nothing().returning(chats.c.chat_id)
    return connection.execute(made).first() is not None


class StoredRows:
    """A table of the store. A method that is given a `connection` joins that transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def transaction(self) -> AbstractContextManager[Connection]:
        """A transaction for several changes; those of several chats in the order of their ids."""
        return self._database.begin()

    def _rows(
        self, query: Any, connection: Connection | None = None, values: dict[str, Any] | None = None
    ) -> Sequence[Any]:
        """The rows that a query finds with these values of its parameters."""
        with self._database.joined(connection, writes=False) as reading:
            return reading.execute(query, values).all()

    def _write(self, chat_id: str, counter: str, statement: Any, connection: Connection | None = None) -> int:
        """Count a change of the chat's rows, and carry it out; how many rows it was about."""
        with self._database.joined(connection) as writing:
            change(writing, chat_id, counter)
            return int(writing.execute(statement).rowcount)

    def _in_batches(
        self, columns: Sequence[Any], key: Column[Any], start: Any, *where: ColumnElement[bool]
    ) -> Iterator[Row[Any]]:
        """All rows in the order of a unique key after `start`, some in each transaction."""
        query = sa.select(*columns).where(*where).order_by(key).limit(BATCH)
        while rows := self._rows(query.where(key > start)):
            yield from rows
            start = getattr(rows[-1], key.name)

    def _remove(
        self, key: Column[Any], chat_id: str, ids: Iterable[str], counter: str, *where: ColumnElement[bool]
    ) -> int:
        """Remove the rows of the chat that have one of these as their key, and count the change; returns how many."""
        removed, table = 0, key.table
        for some in batches(ids):
            these = sa.delete(table).where(table.c.chat_id == checked_chat(chat_id), key.in_(some), *where)
            removed += self._write(chat_id, counter, these)
        return removed

    def _without_vector(
        self, columns: Sequence[Column[Any]], time: Column[Any], model: str, limit: int
    ) -> list[Row[Any]]:
        """Rows of any chat that this model has not embedded: those without any vector first, newest first; then those with another model's."""
        tried, query = time.table.c.embedding_model, sa.select(*columns)
        with self._database.reading() as connection:
            found = [*self._rows(query.where(tried.is_(None)).order_by(time.desc()).limit(limit), connection)]
            for others in (tried < model, tried > model):  # `<>` would scan the whole table
                if len(found) < limit:
                    found += self._rows(query.where(others).limit(limit - len(found)), connection)
        return found
