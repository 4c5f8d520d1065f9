"""Turns of the last days, so that today's turns are found today. They stay until they are old *and* in the current release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection

from dispatcher.memory.store.rows import (
    Revisions,
    StoredRows,
    batches,
    checked_chat,
    clean,
    enter,
    inserting,
    json_object,
    json_text,
    own,
    revisions_of,
)
from dispatcher.memory.store.tables import BATCH, turns
from shared.text.format import storable
from shared.turns.records import Turn
from shared.turns.speakers import Speaker

_CHANGES = "turns_changed"
_COLUMNS = [column for column in turns.c if column.name != "turn_no"]
_LIGHT = [sa.null().label(column.name) if column.name == "embedding" else column for column in _COLUMNS]
_IN_TIME = (turns.c.timestamp, turns.c.turn_no)
_NEWEST_FIRST = [column.desc() for column in _IN_TIME]
#: Built once, because it is used for every message that follows another.
_NEWEST = (
    sa.select(*_COLUMNS)
    .where(turns.c.chat_id == sa.bindparam("chat"))
    .order_by(*_NEWEST_FIRST)
    .limit(sa.bindparam("most"))
)


@dataclass(frozen=True)
class StoredTurn:
    """A turn and its vector."""

    turn: Turn
    embedding: bytes | None = None  # float32, little endian
    embedding_model: str | None = None


class Turns(StoredRows):
    """The table of turns. Text is stored with U+FFFD for NUL and lone surrogates, which no engine accepts; Redis and the archive store them."""

    def store(self, said: Sequence[Turn]) -> None:
        """Add turns, or replace those with the same id in the same chat. A vector that is there stays if the text is the same."""
        by_chat: dict[str, dict[str, Turn]] = {}
        for turn in said:
            by_chat.setdefault(checked_chat(turn.chat_id), {})[turn.turn_id] = turn
        if not by_chat:
            return
        with self._database.begin() as connection:
            for chat_id in sorted(by_chat):  # one order for every writer: two never wait for each other
                enter(connection, chat_id, _CHANGES)
                connection.execute(_upsert(connection.dialect.name), list(map(_values, by_chat[chat_id].values())))

    def newest(self, chat_id: str, limit: int, connection: Connection | None = None) -> list[StoredTurn]:
        """The newest `limit` turns, oldest first."""
        asked = {"chat": checked_chat(chat_id), "most": limit}
        return [_stored(row) for row in own(self._rows(_NEWEST, connection, asked), chat_id)][::-1]

    def back(self, chat_id: str, since: float | None = None, until: float | None = None) -> Iterator[Turn]:
        """The chat's turns with since <= time < until (POSIX seconds; None is no bound), the newest first, some at a time."""
        where = [turns.c.chat_id == checked_chat(chat_id)]
        where += [] if since is None else [turns.c.timestamp >= since]
        left = [] if until is None else [turns.c.timestamp < until]
        query = sa.select(*_LIGHT, turns.c.turn_no).where(*where).order_by(*_NEWEST_FIRST).limit(BATCH)
        while True:
            rows = self._rows(query.where(*left))
            yield from (_stored(row[:-1]).turn for row in own(rows, chat_id))
            if len(rows) < BATCH:
                return
            left = [sa.tuple_(*_IN_TIME) < (rows[-1].timestamp, rows[-1].turn_no)]

    def named(self, chat_id: str, turn_ids: Iterable[str]) -> list[StoredTurn]:
        """Those of these turns that exist, oldest first."""
        found = [one for some in batches(turn_ids) for one in self._select(chat_id, turns.c.turn_id.in_(some))]
        return sorted(found, key=lambda one: one.turn.timestamp)

    def of_session(self, chat_id: str, session: str) -> list[StoredTurn]:
        """All turns of one session, oldest first."""
        return self._select(chat_id, turns.c.session == storable(session))

    def ids(self, chat_id: str) -> dict[str, str | None]:
        """Turn id → session, of all turns of the chat."""
        return self._by_id(chat_id, turns.c.session)

    def times(self, chat_id: str) -> dict[str, float]:
        """Turn id → when it was said (POSIX seconds), of all turns of the chat."""
        return self._by_id(chat_id, turns.c.timestamp)

    def chats(self) -> dict[str, tuple[int, float]]:
        """Every chat with turns → (how many, when the newest was said in POSIX seconds)."""
        query = sa.select(turns.c.chat_id, sa.func.count(), sa.func.max(turns.c.timestamp)).group_by(turns.c.chat_id)
        return {chat_id: (count, newest) for chat_id, count, newest in self._rows(query)}

    def speakers(self, chat_id: str) -> set[Speaker]:
        """Everybody who spoke in the chat's turns."""
        columns = (turns.c.chat_id, turns.c.role, turns.c.name, turns.c.user_id)
        query = sa.select(*columns).where(turns.c.chat_id == checked_chat(chat_id)).distinct()
        rows = own(self._rows(query), chat_id)
        return {Turn("", row.role, chat_id, "", 0.0, row.name, user_id=row.user_id).person for row in rows}

    def revisions(self, chat_id: str, connection: Connection | None = None) -> Revisions:
        """The revisions of turns and memories together, which caches check with each message."""
        with self._database.joined(connection, writes=False) as reading:
            return revisions_of(reading, checked_chat(chat_id))

    def needing_embedding(self, model: str, limit: int) -> list[StoredTurn]:
        """Turns of any chat that `model` has not embedded, those without any vector first. Only for consolidation."""
        return [_stored(row) for row in self._without_vector(_COLUMNS, turns.c.timestamp, model, limit)]

    def update_embedding(
        self, turn: Turn, embedding: bytes | None, model: str, connection: Connection | None = None
    ) -> bool:
        """Set a turn's vector; None means that this model cannot embed it (it is not tried again). Whether a row was changed: one whose text was
        replaced meanwhile is left alone."""
        where = (turns.c.chat_id == checked_chat(turn.chat_id), turns.c.turn_id == turn.turn_id)
        statement = sa.update(turns).where(*where, turns.c.content == storable(turn.content))
        made = statement.values(embedding=embedding, embedding_model=model)
        return self._write(turn.chat_id, _CHANGES, made, connection) > 0

    def every(self, chat_id: str | None = None) -> Iterator[StoredTurn]:
        """All turns, of one chat or of all, in the order they were stored; for `hmem forget` and its scan."""
        where = [] if chat_id is None else [turns.c.chat_id == checked_chat(chat_id)]
        rows = self._in_batches([*_COLUMNS, turns.c.turn_no], turns.c.turn_no, 0, *where)
        return (_stored(row[:-1]) for row in rows)

    def remove(self, chat_id: str, turn_ids: Iterable[str]) -> int:
        """Remove turns by id; returns how many."""
        return self._remove(turns.c.turn_id, chat_id, turn_ids, _CHANGES)

    def prune(self, before: float, released: Callable[[str, Collection[str]], Collection[str]]) -> int:
        """Remove turns from before a time (POSIX seconds) that are in the current release according to `released(chat_id, turn_ids)`.

        No transaction is open while `released` is asked. How many were removed.
        """
        old = turns.c.timestamp < before
        removed = 0
        for chat_id in sorted(row.chat_id for row in self._rows(sa.select(turns.c.chat_id).where(old).distinct())):
            query = sa.select(turns.c.turn_id, turns.c.chat_id).where(turns.c.chat_id == chat_id, old)
            asked = {row.turn_id for row in own(self._rows(query), chat_id)}
            safe = asked.intersection(released(chat_id, asked))
            removed += self._remove(turns.c.turn_id, chat_id, safe, _CHANGES, old)
        return removed

    def _by_id(self, chat_id: str, column: Column[Any]) -> dict[str, Any]:
        query = sa.select(turns.c.chat_id, turns.c.turn_id, column).where(turns.c.chat_id == checked_chat(chat_id))
        return {row.turn_id: getattr(row, column.name) for row in own(self._rows(query), chat_id)}

    def _select(self, chat_id: str, where: ColumnElement[bool]) -> list[StoredTurn]:
        query = sa.select(*_COLUMNS).where(turns.c.chat_id == checked_chat(chat_id), where).order_by(*_IN_TIME)
        return [_stored(row) for row in own(self._rows(query), chat_id)]


@cache
def _upsert(dialect: str) -> Any:
    """Built once: building it takes longer than running it for two turns."""
    statement = inserting(dialect, turns)
    new = statement.excluded
    values = {column.name: new[column.name] for column in _COLUMNS}
    for vector in (turns.c.embedding, turns.c.embedding_model):
        values[vector.name] = sa.case((new.content == turns.c.content, vector))  # else none
    return statement.on_conflict_do_update(index_elements=["chat_id", "turn_id"], set_=values)


def _values(turn: Turn) -> dict[str, Any]:
    return {
        "chat_id": turn.chat_id,
        "turn_id": turn.turn_id,
        "task_id": turn.task_id,
        "role": turn.role,
        "content": storable(turn.content),
        "timestamp": turn.timestamp,
        "name": clean(turn.name),
        "session": clean(turn.session),
        "extra": json_text(turn.extra),
        "user_id": turn.user_id,
    }


def _stored(row: Sequence[Any]) -> StoredTurn:
    """A row of `_COLUMNS`."""
    chat_id, _turn_id, task_id, role, content, timestamp, name, session, extra, *rest = row
    user_id, embedding, model = rest
    turn = Turn(task_id, role, chat_id, content, timestamp, name, session, json_object(extra), user_id)
    return StoredTurn(turn, embedding, model)
