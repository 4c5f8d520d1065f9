"""The outcomes of an answer's tags: each tag is acted on once, however often its task is repeated after crashes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from dispatcher.memory.store.rows import StoredRows, checked_chat, insert
from dispatcher.memory.store.tables import actions
from shared.text.format import storable


class Actions(StoredRows):
    """The table of actions, by chat, task id and the tag's number in the answer."""

    def outcome(self, chat_id: str, task_id: str, number: int) -> str | None:
        """The outcome of an action; None if it has not been done yet."""
        found = self._rows(sa.select(actions.c.outcome).where(*_where(_key(chat_id, task_id, number))))
        return str(found[0].outcome) if found else None

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
        """The outcome of an action: `apply(connection)` does it, in one transaction with its record, unless it was done before.

        `apply` must write only through its connection, and must not wait for anything else: on SQLite this transaction blocks every other
        writer.

        Of two simultaneous calls the second waits for the first, and returns its outcome. An exception of `apply` rolls back everything.
        """
        key = _key(chat_id, task_id, number)
        this = _where(key)
        note = {**key, "kind": kind, "outcome": "", "at": time.time() if now is None else now}
        with self._database.begin() as connection:
            # The row is inserted first: PostgreSQL blocks a second one until this transaction has ended.
            noted = insert(connection, actions).values(note).on_conflict_do_nothing().returning(actions.c.number)
            if connection.execute(noted).first() is None:
                return str(connection.execute(sa.select(actions.c.outcome).where(*this)).scalar_one())
            outcome = storable(apply(connection))
            connection.execute(sa.update(actions).where(*this).values(outcome=outcome))
            return outcome

    def every(self, chat_id: str | None = None) -> Iterator[tuple[str, str, int, str, float]]:
        """(chat, task id, number, outcome, POSIX seconds) of each, of one chat or of all; for `hmem forget` and its scan."""
        where = [] if chat_id is None else [actions.c.chat_id == checked_chat(chat_id)]
        columns = (actions.c.chat_id, actions.c.task_id, actions.c.number, actions.c.outcome, actions.c.at)
        yield from (tuple(row) for row in self._rows(sa.select(*columns).where(*where)))

    def unmet(self, chat_id: str) -> set[str]:
        """The tasks that asked to forget something that was not a memory (`Outcome.unmet`)."""
        return {task for _, task, _, outcome, _ in self.every(chat_id) if outcome.endswith('"unmet":true}')}

    def remove_task(self, chat_id: str, task_id: str) -> int:
        """Remove the records of a task; returns how many."""
        where = (actions.c.chat_id == checked_chat(chat_id), actions.c.task_id == task_id)
        with self._database.begin() as connection:
            return connection.execute(sa.delete(actions).where(*where)).rowcount

    def prune(self, before: float) -> int:
        """Remove records older than a time (POSIX seconds); returns how many. Keep them while a task may be repeated: 7 days."""
        with self._database.begin() as connection:
            return connection.execute(sa.delete(actions).where(actions.c.at < before)).rowcount


def _key(chat_id: str, task_id: str, number: int) -> dict[str, Any]:
    return {"chat_id": checked_chat(chat_id), "task_id": task_id, "number": number}


def _where(key: dict[str, Any]) -> list[ColumnElement[bool]]:
    return [actions.c[name] == value for name, value in key.items()]
