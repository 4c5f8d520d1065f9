"""Rows that are stored otherwise than they should be: plain ones from before encryption, those of a retired key, those whose key was destroyed.

Every pass goes over a table by its primary key, a batch in a transaction, and leaves alone what is as it should be: it may be killed and repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, LargeBinary, Row, Table, Text
from sqlalchemy.dialects import postgresql, sqlite

from dispatcher.memory.store.sealed.columns import GONE, SealedBytes, SealedStore, SealedText, writing_for
from dispatcher.memory.store.tables import BATCH, chats, encryption, metadata
from shared.system.faults import crash_point
from shared.system.keys import sealing

Begin = Callable[[], AbstractContextManager[Connection]]
BEGUN, DONE = "begun", "done"
#: Table → the column by which those who remove rows name them.
NAMES = {
    "turns": "turn_id",
    "summaries": "summary_id",
    "memories": "memory_id",
    "actions": "task_id",
    "schedules": "number",
}
#: Of a row: primary key, chat, name, and its sealed columns as they are stored.
_Raw = Row[Any]


def is_sealed(connection: Connection) -> bool:
    """Whether all rows are sealed. SealedStore if encryption was ever on and is off now."""
    states = set(connection.execute(sa.select(encryption.c.state)).scalars())
    if states and not sealing.is_on():
        raise SealedStore(
            "The day store is encrypted, but ENCRYPT_KEY_FILE is not set. Set it to the file of your encryption key."
        )
    return DONE in states


def note(begin: Begin, state: str) -> None:
    """Write down how far the sealing of a store has come."""
    with begin() as connection:
        kind: Any = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        connection.execute(kind(encryption).values(state=state, at=time.time()).on_conflict_do_nothing())


def seal_plain(begin: Begin) -> int:
    """Seal every row that is plain; returns how many. Other processes may read and write meanwhile."""
    done = 0
    for table, columns in sealed_tables():
        last: Sequence[Any] | None = None
        while True:
            with begin() as connection:
                rows = _page(connection, table, columns, last)
                plain = [row for row in rows if _has_plain(row, columns)]
                if plain:
                    sealing.keys().prepare({sealing.chat_key(row.of_chat) for row in plain})
                    _rewrite(connection, table, columns, plain)
            done += len(plain)
            if len(rows) < BATCH:
                break
            last = rows[-1][: len(table.primary_key)]
            crash_point("store:sealed-some")
    return done


def reseal(
    begin: Begin, chat_id: str, retired: Collection[str], except_for: Mapping[str, Collection[object]] | None = None
) -> int:
    """Encrypt the rows of a chat that have one of these keys (ids) with the chat's present key; returns how many.

    `except_for`: table → names of rows that are left as they are (NAMES has the columns).

    When it returns, no other row of the chat has such a key, and none will get it: who writes looks for retired keys once the others are blocked.
    """
    done = 0
    with begin() as connection:
        connection.execute(sa.select(chats.c.chat_id).where(chats.c.chat_id == chat_id).with_for_update())
        for table, columns in sealed_tables():
            rows = _of_chat(connection, table, columns, chat_id)
            kept = (except_for or {}).get(table.name, ())
            old = [row for row in rows if row.named not in kept and _keys_of(row, columns).intersection(retired)]
            _rewrite(connection, table, columns, old)
            done += len(old)
    return done


def remove_gone(begin: Begin, chat_id: str) -> dict[str, int]:
    """Remove the rows of a chat whose key was destroyed; returns table → how many."""
    removed = {}
    with begin() as connection:
        for table, columns in sealed_tables():
            rows = _of_chat(connection, table, columns, chat_id)
            gone = [row for row in rows if any(value is GONE for value in _opened(row, columns))]
            if gone:
                where = sa.and_(*(column == sa.bindparam(f"at_{column.name}") for column in table.primary_key))
                connection.execute(sa.delete(table).where(where), [_place(table, row) for row in gone])
                removed[table.name] = len(gone)
    return removed


def sample(connection: Connection, most: int) -> tuple[int, int]:
    """How many of the newest sealed texts of each table open, and how many rows of them are plain, for `hmem doctor`. EncryptionKeyMissing if one
    does not open (a destroyed key is not one)."""
    opened = plain = 0
    for table, columns in sealed_tables():
        order = [column.desc() for column in table.primary_key]
        rows = connection.execute(_raw(table, columns).order_by(*order).limit(most)).all()
        plain += sum(_has_plain(row, columns) for row in rows)
        opened += sum(value is not GONE and value is not None for row in rows for value in _opened(row, columns))
    return opened, plain


@cache
def sealed_tables() -> list[tuple[Table, list[Column[Any]]]]:
    """The tables that have sealed columns, and those."""
    found = []
    for table in metadata.sorted_tables:
        columns = [column for column in table.c if isinstance(column.type, SealedText | SealedBytes)]
        if columns:
            found.append((table, columns))
    return found


def _raw(table: Table, columns: Sequence[Column[Any]]) -> sa.Select[Any]:
    """Rows with their sealed columns as they are stored."""
    stored = [
        sa.type_coerce(column, Text() if isinstance(column.type, SealedText) else LargeBinary()) for column in columns
    ]
    return sa.select(
        *table.primary_key, table.c.chat_id.label("of_chat"), table.c[NAMES[table.name]].label("named"), *stored
    )


def _page(
    connection: Connection, table: Table, columns: Sequence[Column[Any]], last: Sequence[Any] | None
) -> Sequence[_Raw]:
    """The next rows by primary key; the writers of their chats are blocked, in the order in which others do that."""
    key = list(table.primary_key)
    after = [] if last is None else [sa.tuple_(*key) > sa.tuple_(*last) if len(key) > 1 else key[0] > last[0]]
    query = _raw(table, columns).where(*after).order_by(*key).limit(BATCH)
    affected = sorted({row.of_chat for row in connection.execute(query)})
    for chat_id in affected:
        connection.execute(sa.select(chats.c.chat_id).where(chats.c.chat_id == chat_id).with_for_update())
    return connection.execute(query).all()


def _of_chat(connection: Connection, table: Table, columns: Sequence[Column[Any]], chat_id: str) -> Sequence[_Raw]:
    return connection.execute(_raw(table, columns).where(table.c.chat_id == chat_id)).all()


def _stored(row: _Raw, columns: Sequence[Column[Any]]) -> Sequence[Any]:
    return row[-len(columns) :]


def _opened(row: _Raw, columns: Sequence[Column[Any]]) -> Iterator[Any]:
    for column, value in zip(columns, _stored(row, columns), strict=True):
        yield None if value is None else _kind(column).opened(value)


def _keys_of(row: _Raw, columns: Sequence[Column[Any]]) -> set[str]:
    """Ids of the keys of a row."""
    values = zip(columns, _stored(row, columns), strict=True)
    return {key for column, value in values if (key := _kind(column).key_of(value))}


def _has_plain(row: _Raw, columns: Sequence[Column[Any]]) -> bool:
    """Whether a row has text or a vector that is not sealed."""
    values = zip(columns, _stored(row, columns), strict=True)
    return any(value not in (None, "", "{}") and _kind(column).key_of(value) is None for column, value in values)


def _rewrite(connection: Connection, table: Table, columns: Sequence[Column[Any]], rows: Sequence[_Raw]) -> None:
    """Write the sealed columns of these rows again."""
    where = sa.and_(*(column == sa.bindparam(f"at_{column.name}") for column in table.primary_key))
    values = {column.name: sa.bindparam(f"new_{column.name}", type_=column.type) for column in columns}
    statement = sa.update(table).where(where).values(values)
    by_chat: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        opened = list(_opened(row, columns))
        if GONE not in opened:
            new = {f"new_{column.name}": value for column, value in zip(columns, opened, strict=True)}
            by_chat.setdefault(row.of_chat, []).append(_place(table, row) | new)
    for chat_id, some in by_chat.items():
        writing_for(chat_id)
        connection.execute(statement, some)
    writing_for(None)


def _place(table: Table, row: _Raw) -> dict[str, Any]:
    return {f"at_{column.name}": value for column, value in zip(table.primary_key, row, strict=False)}


def _kind(column: Column[Any]) -> Any:
    return column.type
