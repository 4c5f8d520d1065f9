"""What the tags of an answer have done: each is acted on once, however often its task is finished again after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.rows import checked_chat, insert
from dispatcher.memory.store.tables import actions
from shared.text.format import storable


class Actions:
    """The table of actions, by chat, task id and the tag's number in the answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def outcome(self, chat_id: str, task_id: str, number: int) -> str | None:
        """What came of an action; None if it was not done yet."""
        this = _key(chat_id, task_id, number)
        with self._database.reading() as connection:
            found = connection.execute(sa.select(actions.c.outcome).where(*_where(this))).scalar()
            return None if found is None else str(found)

    def apply_once(
        self,
        chat_id: str,
        task_id: str,
        number: int,
        kind: str,
        apply: Callable[[Connection], str],
        *,
        now: float | None = None,
    ) -> str:
        """The outcome of an action: `apply(connection)` does it in one transaction with the note that it was done, unless it was done before.

        What `apply` writes must go through its connection, and it must not wait for anything else: on SQLite this transaction holds back every
        other writer.

        Two that come at once: the second waits for the first, and returns its outcome. Whatever `apply` raises undoes both.
        """
        key = _key(chat_id, task_id, number)
        this = _where(key)
        note = {**key, "kind": kind, "outcome": "", "at": time.time() if now is None else now}
        with self._database.begin() as connection:
            # The row goes in first: PostgreSQL holds a second one back until this transaction has ended.
            noted = insert(connection, actions).values(note).on_conflict_do_nothing().returning(actions.c.number)
            if connection.execute(noted).first() is None:
                return str(connection.execute(sa.select(actions.c.outcome).where(*this)).scalar_one())
            outcome = storable(apply(connection))
            connection.execute(sa.update(actions).where(*this).values(outcome=outcome))
            return outcome

    def every(self, chat_id: str | None = None) -> Iterator[tuple[str, str, int, str, float]]:
        """(chat, task id, number, outcome, when) of each, of one chat or of all; for the owner's forgetting, and its proof."""
        where = [] if chat_id is None else [actions.c.chat_id == checked_chat(chat_id)]
        columns = (actions.c.chat_id, actions.c.task_id, actions.c.number, actions.c.outcome, actions.c.at)
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(*columns).where(*where)).all()
        yield from (tuple(row) for row in rows)

    def remove_task(self, chat_id: str, task_id: str) -> int:
        """Remove the notes of a task; how many there were."""
        where = (actions.c.chat_id == checked_chat(chat_id), actions.c.task_id == task_id)
        with self._database.begin() as connection:
            return connection.execute(sa.delete(actions).where(*where)).rowcount

    def prune(self, before: float) -> int:
        """Remove notes older than a time (POSIX seconds); how many there were. Keep them as long as a task may come again: 7 days."""
        with self._database.begin() as connection:
            return connection.execute(sa.delete(actions).where(actions.c.at < before)).rowcount


def _key(chat_id: str, task_id: str, number: int) -> dict[str, Any]:
    return {"chat_id": checked_chat(chat_id), "task_id": task_id, "number": number}


def _where(key: dict[str, Any]) -> list[ColumnElement[bool]]:
    return [actions.c[name] == value for name, value in key.items()]
