"""Summaries of long sessions: medium at first, long once there are enough of them or they are old enough."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from dispatcher.memory.store.rows import (
    StoredRows,
    batches,
    checked_chat,
    enter,
    insert,
    json_list,
    json_text,
    own,
)
from dispatcher.memory.store.tables import summaries
from shared.text.format import storable

Tier = Literal["medium", "long"]

#: Summaries change what is found today, as turns do: they count as a change of the same revision.
_CHANGES = "turns_changed"


@dataclass(frozen=True)
class SessionSummary:
    """The summary of a session. Times are POSIX seconds; `turn_ids` in the order of time."""

    chat_id: str
    session: str
    text: str
    started_at: float
    ended_at: float
    created_at: float
    turn_ids: tuple[str, ...]
    tier: Tier = "medium"
    tokens: int = 0  # of what was summarised
    embedding: bytes | None = None  # float32, little endian
    embedding_model: str | None = None
    summary_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def last_turn(self) -> str:
        return self.turn_ids[-1] if self.turn_ids else ""


Found = list[SessionSummary]


class Summaries(StoredRows):
    """The table of summaries."""

    def store(self, summary: SessionSummary) -> bool:
        """Add a summary; False if one with this chat, session and last turn (or this id) already exists, which stays unchanged."""
        chat_id = checked_chat(summary.chat_id)
        with self._database.begin() as connection:
            enter(connection, chat_id, _CHANGES)
            statement = insert(connection, summaries).values(_values(summary)).on_conflict_do_nothing()
            return connection.execute(statement.returning(summaries.c.summary_id)).first() is not None

    def list(
        self, chat_id: str, limit: int | None = None, tier: Tier | None = None, connection: Connection | None = None
    ) -> Found:
        """The newest `limit` summaries, oldest first."""
        query = sa.select(summaries).where(summaries.c.chat_id == checked_chat(chat_id)).limit(limit)
        query = query.order_by(summaries.c.ended_at.desc(), summaries.c.created_at.desc(), summaries.c.summary_id)
        query = query if tier is None else query.where(summaries.c.tier == tier)
        return [_summary(row) for row in own(self._rows(query, connection), chat_id)][::-1]

    def containing(self, chat_id: str, turn_ids: Collection[str]) -> Found:
        """Summaries made from one of these turns, oldest first."""
        wanted = set(turn_ids)
        return [found for found in self.list(chat_id) if wanted.intersection(found.turn_ids)]

    def every(self) -> Iterator[SessionSummary]:
        """All summaries of all chats; for `hmem forget` and its scan."""
        return map(_summary, self._in_batches([*summaries.c], summaries.c.summary_id, ""))

    def due(self, keep: int, before: float) -> dict[str, set[str]]:
        """Medium summaries that are to become long, by chat: all but the newest `keep`, and any that ended before `before`. For consolidation."""
        newest = sa.func.row_number().over(partition_by=summaries.c.chat_id, order_by=summaries.c.ended_at.desc())
        numbered = sa.select(summaries.c.chat_id, summaries.c.summary_id, summaries.c.ended_at, newest.label("place"))
        those = numbered.where(summaries.c.tier == "medium").subquery()
        query = sa.select(those.c.chat_id, those.c.summary_id)
        query = query.where(sa.or_(those.c.place > keep, those.c.ended_at < before)).order_by(those.c.chat_id)
        found: dict[str, set[str]] = {}
        for chat_id, summary_id in self._rows(query):
            found.setdefault(chat_id, set()).add(summary_id)
        return found

    def promote(self, chat_id: str, summary_ids: Iterable[str]) -> int:
        """Medium → long; returns how many were medium."""
        checked_chat(chat_id)
        done = 0
        for some in batches(summary_ids):
            where = (summaries.c.chat_id == chat_id, summaries.c.summary_id.in_(some), summaries.c.tier == "medium")
            done += self._write(chat_id, _CHANGES, sa.update(summaries).where(*where).values(tier="long"))
        return done

    def needing_embedding(self, model: str, limit: int) -> Found:
        """Summaries of any chat that `model` has not embedded, those without any vector first. Only for consolidation."""
        return [_summary(row) for row in self._without_vector([*summaries.c], summaries.c.ended_at, model, limit)]

    def update_embedding(self, chat_id: str, summary_id: str, embedding: bytes | None, model: str) -> bool:
        """Set a summary's vector; None means that this model cannot embed it. Returns whether the summary exists."""
        where = (summaries.c.chat_id == checked_chat(chat_id), summaries.c.summary_id == summary_id)
        made = sa.update(summaries).where(*where).values(embedding=embedding, embedding_model=model)
        return self._write(chat_id, _CHANGES, made) > 0

    def remove(self, chat_id: str, summary_ids: Iterable[str]) -> int:
        """Remove summaries by id; returns how many."""
        return self._remove(summaries.c.summary_id, chat_id, summary_ids, _CHANGES)


def _values(summary: SessionSummary) -> dict[str, Any]:
    return vars(summary) | {
        "session": storable(summary.session),
        "text": storable(summary.text),
        "turn_ids": json_text(summary.turn_ids),
        "last_turn": summary.last_turn,
    }


def _summary(row: Row[Any]) -> SessionSummary:
    values = dict(row._mapping)
    del values["last_turn"]
    return SessionSummary(**(values | {"turn_ids": json_list(row.turn_ids)}))
