"""What a transaction of the day store changes, for the journal: the rows that it leaves, by chat.

Temporary triggers, which belong to a connection and are nowhere in the file, note which rows a transaction touches. Before the commit these
rows are read, without their vectors (those are made again). Each transaction that changes something raises `PRAGMA user_version` in the same
commit, also without a journal, so that a later one notices what it has missed. The first one gives the store an id (`PRAGMA application_id`), which
its copies have too: so another store is not taken for a newer or older one of the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from secrets import randbelow
from typing import TYPE_CHECKING, Any

from shared.delivery.journal.files import COUNTS

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy import Connection

#: Columns that are not in the journal: vectors are made again from the text.
DERIVED = ("embedding", "embedding_model")
#: SQLite keeps the count in 31 bits.
MOST_CHANGES = 2**31 - 1


@dataclass(frozen=True)
class StoreChange:
    """`rows`: (chat, {table, name, row}) of each row; `row` is None for one that is gone."""

    version: int
    rows: list[tuple[str, dict[str, Any]]]


Record = Callable[[StoreChange], None]


def watch(connection: Any, tables: Iterable[sa.Table]) -> None:
    """Set the triggers up on a new connection of SQLite's driver; a table that does not exist yet, or is of no chat, is left out."""
    connection.execute("CREATE TEMP TABLE IF NOT EXISTS hmem_touched (tab TEXT, name TEXT, chat TEXT)")
    there = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")}
    for table in tables:
        if table.name in there and "chat_id" in table.c:
            _watch_table(connection, table)


def _watch_table(connection: Any, table: sa.Table) -> None:
    kept = ", ".join(f'"{column.name}"' for column in table.c if column.name not in DERIVED)
    for event, rows in (("INSERT", ("NEW",)), (f"UPDATE OF {kept}", ("OLD", "NEW")), ("DELETE", ("OLD",))):
        names = [", ".join(f"'{column.name}', {row}.\"{column.name}\"" for column in table.primary_key) for row in rows]
        noted = " ".join(  # names of our own tables and columns
            f"INSERT INTO hmem_touched VALUES ('{table.name}', json_object({name}), {row}.chat_id);"  # noqa: S608
            for row, name in zip(rows, names, strict=True)
        )
        trigger = f"hmem_{table.name}_{event.split()[0].lower()}"
        connection.execute(
            f'CREATE TEMP TRIGGER IF NOT EXISTS {trigger} AFTER {event} ON main."{table.name}" BEGIN {noted} END'
        )


def total_changes(connection: Connection) -> int:
    """Rows that this connection has ever changed."""
    raw: Any = connection.connection.dbapi_connection
    return int(raw.total_changes)


def count(connection: Connection) -> int:
    """Raise the store's count of changes, in this transaction; the new version."""
    changes = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one()) % MOST_CHANGES + 1
    connection.exec_driver_sql(f"PRAGMA user_version = {changes}")
    store = int(connection.exec_driver_sql("PRAGMA application_id").scalar_one())
    if not store:
        store = 1 + randbelow(2**31 - 1)
        connection.exec_driver_sql(f"PRAGMA application_id = {store}")
    return store * COUNTS + changes


def changed_rows(connection: Connection, tables: Mapping[str, sa.Table]) -> list[tuple[str, dict[str, Any]]]:
    """The rows that this transaction has touched, as they are now; afterwards none counts as touched."""
    import sqlalchemy as sa  # late: without a day store nothing loads it

    touched = connection.exec_driver_sql("SELECT DISTINCT tab, name, chat FROM temp.hmem_touched").all()
    connection.exec_driver_sql("DELETE FROM temp.hmem_touched")
    rows = []
    for name_of_table, name, chat in touched:
        table, named = tables[name_of_table], json.loads(name)
        columns = [column for column in table.c if column.name not in DERIVED]
        where = [table.c[column] == value for column, value in named.items()]
        found = connection.execute(sa.select(*columns).where(*where)).mappings().first()
        row = None if found is None else dict(found)
        rows.append((str(chat), {"table": table.name, "name": named, "row": row}))
    return rows
