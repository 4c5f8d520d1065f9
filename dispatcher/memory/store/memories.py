"""Typed memories: facts, goals, preferences. They are stored until they are forgotten."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from dispatcher.memory.store.database import Database
from dispatcher.memory.store.event_outbox import NotedRows
from dispatcher.memory.store.rows import (
    batches,
    change,
    checked_chat,
    clean,
    hold,
    json_list,
    json_text,
    own,
    revisions_of,
    unchanged,
)
from dispatcher.memory.store.tables import memories
from shared.errors import InvalidInput
from shared.text.format import storable
from shared.turns.events import EventChange, EventKind

_CHANGES = "memories_changed"
_HIGHEST_IMPORTANCE = 5


class MemoryType(StrEnum):
    FACT = "fact"
    GOAL = "goal"
    COMPLETED_GOAL = "completed_goal"
    PREFERENCE = "preference"


@dataclass(frozen=True)
class Memory:
    """A fact, goal or preference. Times are POSIX seconds. `memory_id` is unique in the store, `number` in the chat: 1, 2, 3 …, never reused."""

    chat_id: str
    type: MemoryType
    text: str
    created: float
    memory_id: int = 0  # 0 until it is stored
    number: int = 0
    uid: str = ""  # for ever, also in a store that was made anew from the archive
    deadline: float | None = None  # for a fact, the end of the time that it refers to
    completed_at: float | None = None
    priority: int = 0  # 0 normal, more is more urgent
    importance: int = 3  # 1 to 5
    category: str | None = None
    session: str | None = None
    source_turn: str | None = None  # ids of the turns it comes from, separated by spaces
    last_accessed: float | None = None
    access_count: int = 0
    embedding: bytes | None = None  # float32, little endian; left out by `every` and `due`
    embedding_model: str | None = None
    reminded_at: float | None = None
    superseded_by: int | None = None  # memory_id of the newer one that contradicts it
    superseded_at: float | None = None
    user_id: str | None = None  # in a group, who said it; None: the whole chat's
    name: str | None = None  # their display name at that time
    wordings: tuple[str, ...] = ()  # other wordings of it

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text and other wordings."""
        return (self.text, *self.wordings)

    @property
    def sources(self) -> list[str]:
        """Ids of the turns that it comes from."""
        return (self.source_turn or "").split()


Found = list[Memory]

#: Columns in the order of Memory's fields: a row is its arguments.
_WHOLE = [memories.c[one.name] for one in fields(Memory)]
_LIGHT = [sa.null().label("embedding") if column.name == "embedding" else column for column in _WHOLE]


class Memories(NotedRows):
    """The table of typed memories."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, memories, EventKind.MEMORY.value, "last_memory", _CHANGES)

    def add(self, memory: Memory, *, connection: Connection | None = None) -> Memory:
        """Store a new memory in its chat; returns it with its id and number. InvalidInput if its importance is not 1 to 5."""
        if not 1 <= memory.importance <= _HIGHEST_IMPORTANCE:
            raise InvalidInput(f"A memory's importance must be 1 to 5, not {memory.importance}. Nothing was stored.")
        stored = _cleaned(memory)
        values = {name: value for name, value in vars(stored).items() if name != "memory_id"}
        values |= {"type": str(stored.type), "wordings": _wordings(stored.wordings)}
        with self._database.joined(connection) as joined:
            made = self._insert(joined, values)
            return replace(stored, memory_id=made.memory_id, number=made.number, uid=made.uid)

    def by_number(self, chat_id: str, number: int, *, connection: Connection | None = None) -> Memory | None:
        """The memory with this number in the chat, with its embedding."""
        return self._one(chat_id, memories.c.number == number, connection)

    def list(self, chat_id: str, limit: int | None = None, connection: Connection | None = None) -> Found:
        """The newest `limit` memories in the order they were created, with their embeddings."""
        query = sa.select(*_WHOLE).where(memories.c.chat_id == checked_chat(chat_id))
        query = query.order_by(memories.c.number.desc()).limit(limit)
        return [_memory(row) for row in own(self._rows(query, connection), chat_id)][::-1]

    def count(self, chat_id: str | None = None, kind: MemoryType | None = None) -> int:
        """How many memories of this type a chat has; without one all chats, only for `hmem doctor`."""
        query = sa.select(sa.func.count()).select_from(memories)
        query = query if chat_id is None else query.where(memories.c.chat_id == checked_chat(chat_id))
        query = query if kind is None else query.where(memories.c.type == str(kind))
        return int(self._rows(query)[0][0])

    def revision(self, chat_id: str) -> str:
        """Differs whenever a memory of the chat was added, completed, removed or given a vector (not when it was merely used)."""
        with self._database.reading() as connection:
            return revisions_of(connection, checked_chat(chat_id)).memories

    def unchanged(self, chat_id: str, revision: str, connection: Connection) -> bool:
        """Whether the chat's memories still have that revision; then only this transaction can change them until it ends.

        Pass NO_REVISION only if a memory is added: it creates the chat's counters.
        """
        return unchanged(connection, checked_chat(chat_id), revision)

    def every(self) -> Iterator[Memory]:
        """All memories of all chats; for `hmem forget` and its scan."""
        return map(_memory, self._in_batches(_LIGHT, memories.c.memory_id, 0))

    def newest(self, limit: int, of: Collection[str] | None) -> Found:
        """The newest valid memories of these chats (None: of all), the newest first. Only for the owner's page."""
        where = [memories.c.superseded_by.is_(None), *_of_chats(of)]
        return self._light(where, memories.c.memory_id.desc(), limit=limit)

    def goals(self, until: float, limit: int, of: Collection[str] | None) -> Found:
        """Open goals of these chats (None: of all) with a deadline up to `until`, the most urgent first. Only for the owner's page."""
        valid = memories.c.type == str(MemoryType.GOAL), memories.c.superseded_by.is_(None), *_of_chats(of)
        return self._light([*valid, memories.c.deadline <= until], *_MOST_URGENT, limit=limit)

    def chats(self) -> dict[str, float]:
        """Every chat with memories → when the newest was noted (POSIX seconds)."""
        query = sa.select(memories.c.chat_id, sa.func.max(memories.c.created)).group_by(memories.c.chat_id)
        return {row[0]: row[1] for row in self._rows(query)}

    def replaced_by(self, ids: Collection[int]) -> Found:
        """What these memories have replaced. Only for the owner's page."""
        return self._light([memories.c.superseded_by.in_(ids)], memories.c.memory_id)

    def touch(self, chat_id: str, ids: Iterable[int], now: float) -> int:
        """Record that these were used; returns how many exist."""
        values = {"last_accessed": now, "access_count": memories.c.access_count + 1}
        with self._database.begin() as connection:
            hold(connection, chat_id)
            return sum(
                self._update(connection, chat_id, [memories.c.memory_id.in_(some)], values, EventChange.USED)
                for some in batches(ids)
            )

    def change(
        self,
        chat_id: str,
        memory_id: int,
        what: EventChange | None = EventChange.CHANGED,
        *,
        connection: Connection | None = None,
        **columns: Any,
    ) -> bool:
        """Set columns of a memory; `what` became of it, for the archive, unless it is nothing that a person would miss. Whether it exists."""
        if "wordings" in columns:
            columns["wordings"] = _wordings(list(map(storable, columns["wordings"])))
        with self._database.joined(connection) as joined:
            change(joined, chat_id, _CHANGES)
            return self._update(joined, chat_id, [memories.c.memory_id == memory_id], columns, what) > 0

    def reinforce(self, memory: Memory, now: float, *, connection: Connection | None = None, **columns: Any) -> None:
        """Note that it was repeated: used once more, and more important by one (up to 5); with other columns that change."""
        columns |= {"last_accessed": now, "access_count": memories.c.access_count + 1}
        columns["importance"] = min(_HIGHEST_IMPORTANCE, memory.importance + 1)
        self.change(memory.chat_id, memory.memory_id, connection=connection, **columns)

    def supersede(
        self, chat_id: str, memory_id: int, by: int, now: float, *, connection: Connection | None = None
    ) -> None:
        """Record that a newer memory (its id) replaces this one."""
        values = {"superseded_by": by, "superseded_at": now}
        self.change(chat_id, memory_id, EventChange.REPLACED, connection=connection, **values)

    def complete(self, chat_id: str, memory_id: int, now: float, *, connection: Connection | None = None) -> bool:
        """Goal → completed goal; False if it is not an open goal of this chat."""
        where = [memories.c.memory_id == memory_id, memories.c.type == str(MemoryType.GOAL)]
        values = {"type": str(MemoryType.COMPLETED_GOAL), "completed_at": now}
        with self._database.joined(connection) as joined:
            change(joined, chat_id, _CHANGES)
            return self._update(joined, chat_id, where, values, EventChange.DONE) > 0

    def delete(
        self, chat_id: str, memory_id: int, *, heir: int | None = None, connection: Connection | None = None
    ) -> bool:
        """Remove a memory; whether it existed. What it had superseded gets the memory `heir` as its successor, else the removed one's own, if any."""
        with self._database.joined(connection) as joined:
            change(joined, chat_id, _CHANGES)  # first: of two that delete it one finds nothing
            found = self._one(chat_id, memories.c.memory_id == memory_id, joined)
            if found:
                self.noted(joined, sa.delete(memories).where(memories.c.memory_id == memory_id), EventChange.HIDDEN)
                values: dict[str, Any] = {"superseded_by": heir}
                if heir is None:
                    values = {"superseded_by": found.superseded_by, "superseded_at": found.superseded_at}
                self._update(joined, chat_id, [memories.c.superseded_by == memory_id], values)
            return found is not None

    def needing_embedding(self, model: str, limit: int) -> Found:
        """Memories of any chat that `model` has not embedded, those without any vector first. Only for consolidation."""
        return [_memory(row) for row in self._without_vector(_WHOLE, memories.c.created, model, limit)]

    def due(self, until: float, limit: int) -> Found:
        """Open goals of any chat with a deadline up to `until` and no reminder yet, the most urgent first. Only for reminders."""
        return self._light([*_OPEN, memories.c.deadline <= until], *_MOST_URGENT, limit=limit)

    def _light(self, where: Sequence[ColumnElement[bool]], *order: Any, limit: int | None = None) -> Found:
        return [_memory(row) for row in self._rows(sa.select(*_LIGHT).where(*where).order_by(*order).limit(limit))]

    def mark_reminded(self, chat_id: str, memory_id: int, at: float) -> bool:
        """Claim the reminder of an open goal: True for the first caller only."""
        with self._database.begin() as connection:
            where = [memories.c.memory_id == memory_id, *_OPEN]
            return self._update(connection, chat_id, where, {"reminded_at": at}, EventChange.DUE) > 0

    def _one(self, chat_id: str, where: ColumnElement[bool], connection: Connection | None) -> Memory | None:
        query = sa.select(*_WHOLE).where(memories.c.chat_id == checked_chat(chat_id), where)
        return next((_memory(row) for row in own(self._rows(query, connection), chat_id)), None)

    def _update(
        self,
        connection: Connection,
        chat_id: str,
        where: Sequence[ColumnElement[bool]],
        values: dict[str, Any],
        what: EventChange | None = EventChange.CHANGED,
    ) -> int:
        """How many rows; `what` as for `change`."""
        where = [memories.c.chat_id == checked_chat(chat_id), *where]
        return self.noted(connection, sa.update(memories).where(*where).values(values), what)


_MOST_URGENT = (memories.c.deadline, memories.c.memory_id)
_TYPES = {str(one): one for one in MemoryType}
_OPEN = (memories.c.type == str(MemoryType.GOAL), memories.c.reminded_at.is_(None), memories.c.deadline.is_not(None))


def _of_chats(of: Collection[str] | None) -> list[ColumnElement[bool]]:
    return [] if of is None else [memories.c.chat_id.in_(of)]


def _wordings(wordings: Sequence[str]) -> str | None:
    return json_text(wordings) if wordings else None


def _cleaned(memory: Memory) -> Memory:
    texts: dict[str, Any] = {
        name: clean(getattr(memory, name)) for name in ("text", "category", "session", "source_turn", "name")
    }
    return replace(memory, wordings=tuple(map(storable, memory.wordings)), **texts)


def _memory(row: Sequence[Any]) -> Memory:
    """A row of `_WHOLE` or `_LIGHT`."""
    chat_id, kind, *rest = row
    rest[-1] = json_list(rest[-1]) if rest[-1] else ()
    return Memory(chat_id, _TYPES[kind], *rest)
