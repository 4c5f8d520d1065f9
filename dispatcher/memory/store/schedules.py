"""Reminders and scheduled questions of all chats, by number within a chat."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import time
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Row

from dispatcher.memory.dates.wall_clock import RepeatRule, next_moment
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.event_outbox import new_uid, note_changes
from dispatcher.memory.store.rows import checked_chat, clean, enter, hold
from dispatcher.memory.store.tables import chats, schedules
from shared.turns.events import EventChange, EventKind


class ScheduleKind(StrEnum):
    """A reminder is sent as it is; a question is asked, and its answer is sent."""

    REMINDER = "reminder"
    QUESTION = "question"


@dataclass(frozen=True)
class Schedule:
    """Times are POSIX seconds. `rule` (empty for once) and `clock` are local in `zone`; `due` is the next moment by them, `snoozed` one more.

    `user_id` and `name`: who set it. `source_turn`: the turn in which it was asked for, for `hmem forget`.
    """

    chat_id: str
    kind: ScheduleKind
    text: str
    zone: str
    due: float | None
    created: float
    user_id: str | None = None
    name: str | None = None
    rule: str = ""
    clock: str = ""
    snoozed: float | None = None
    last_due: float | None = None
    source_turn: str | None = None
    number: int = 0
    schedule_id: int = 0
    uid: str = ""  # for ever, also in a store that was made anew from the archive

    @property
    def waits_for(self) -> float | None:
        """The next moment; None for one that is over."""
        return min((at for at in (self.due, self.snoozed) if at is not None), default=None)

    def name_of(self, moment: float) -> str:
        """A name of one occurrence: a new store counts its ids from 1 again, so the time of creation is part of it."""
        return f"{self.schedule_id}-{int(self.created * 1000)}-{int(moment * 1000)}"

    def following(self, now: float) -> float | None:
        """The rule's next moment after now, and after `due`; None for one that comes once."""
        if not self.rule:
            return None
        after = max(now, self.due or now)
        return next_moment(RepeatRule.parse(self.rule), time.fromisoformat(self.clock), ZoneInfo(self.zone), after)


class Schedules:
    """The table of schedules. StoreUnavailable if the store cannot be reached."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Schedule, connection: Connection | None = None) -> Schedule:
        """The schedule with its number and id."""
        chat_id = checked_chat(new.chat_id)
        with self._database.joined(connection) as used:
            enter(used, chat_id, "last_schedule")
            number = used.execute(sa.select(chats.c.last_schedule).where(chats.c.chat_id == chat_id)).scalar_one()
            row = {column.name: getattr(new, column.name) for column in schedules.c if column.name != "schedule_id"}
            row |= {
                "number": number,
                "uid": new_uid(),
                "kind": str(new.kind),
                "text": clean(new.text),
                "name": clean(new.name),
            }
            made = used.execute(sa.insert(schedules).values(row).returning(schedules.c.schedule_id)).scalar_one()
            note_changes(used, EventKind.SCHEDULE, chat_id, [(row["uid"], number)], EventChange.MADE)
            return replace(new, text=str(row["text"]), number=int(number), schedule_id=int(made), uid=row["uid"])

    def of_chat(self, chat_id: str, kind: ScheduleKind | None = None) -> list[Schedule]:
        """Those that are still to come, the next one first."""
        open_ = [one for one in self.every(chat_id) if one.waits_for is not None and kind in (None, one.kind)]
        return sorted(open_, key=lambda one: (one.waits_for or 0.0, one.number))

    def count(self, chat_id: str, connection: Connection) -> int:
        """How many the chat has, including past ones."""
        count = sa.select(sa.func.count()).select_from(schedules).where(schedules.c.chat_id == checked_chat(chat_id))
        return int(connection.execute(count).scalar_one())

    def by_number(self, chat_id: str, number: int) -> Schedule | None:
        return next((one for one in self.every(chat_id) if one.number == number), None)

    def every(self, chat_id: str | None = None) -> Iterator[Schedule]:
        """All of one chat or of all chats, including past ones."""
        where = [] if chat_id is None else [schedules.c.chat_id == checked_chat(chat_id)]
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(schedules).where(*where).order_by(schedules.c.schedule_id)).all()
        yield from map(_schedule, rows)

    def due(self, now: float, most: int) -> list[Schedule]:
        """Those whose moment has come, the earliest first."""
        come = sa.or_(schedules.c.due <= now, schedules.c.snoozed <= now)
        order = sa.func.coalesce(schedules.c.due, schedules.c.snoozed)
        with self._database.reading() as connection:
            rows = connection.execute(sa.select(schedules).where(come).order_by(order).limit(most)).all()
        return [_schedule(row) for row in rows]

    def next_due(self) -> float | None:
        """The next moment of all chats."""
        with self._database.reading() as connection:
            row = connection.execute(sa.select(sa.func.min(schedules.c.due), sa.func.min(schedules.c.snoozed))).one()
        return min((float(at) for at in row if at is not None), default=None)

    def advance(self, sent: Schedule, now: float) -> bool:
        """Note that all of its moments up to now have been sent; False if somebody else did, or it was changed meanwhile."""
        values: dict[str, Any] = {"last_due": sent.waits_for}
        if sent.due is not None and sent.due <= now:
            values["due"] = sent.following(now)
        if sent.snoozed is not None and sent.snoozed <= now:
            values["snoozed"] = None
        same = (
            schedules.c.schedule_id == sent.schedule_id,
            schedules.c.due.is_not_distinct_from(sent.due),
            schedules.c.snoozed.is_not_distinct_from(sent.snoozed),
        )
        with self._database.begin() as connection:
            return _update(connection, sent.chat_id, same, values, EventChange.DUE)

    def snooze(self, chat_id: str, number: int, until: float | None, connection: Connection | None = None) -> bool:
        """Send it once more at this time; None takes that back. Whether it exists."""
        where = (schedules.c.chat_id == checked_chat(chat_id), schedules.c.number == number)
        with self._database.joined(connection) as used:
            return _update(used, chat_id, where, {"snoozed": until}, EventChange.CHANGED)

    def remove(self, chat_id: str, number: int, connection: Connection | None = None) -> bool:
        """Whether it existed."""
        where = (schedules.c.chat_id == checked_chat(chat_id), schedules.c.number == number)
        with self._database.joined(connection) as used:
            hold(used, chat_id)
            removed = used.execute(sa.delete(schedules).where(*where).returning(schedules.c.uid)).scalars().all()
            note_changes(used, EventKind.SCHEDULE, chat_id, [(uid, number) for uid in removed], EventChange.HIDDEN)
            return bool(removed)

    def prune(self, before: float) -> int:
        """Remove the ones that ended before a time; returns how many."""
        over = (schedules.c.due.is_(None), schedules.c.snoozed.is_(None), schedules.c.last_due < before)
        statement = (
            sa.delete(schedules).where(*over).returning(schedules.c.chat_id, schedules.c.uid, schedules.c.number)
        )
        with self._database.begin() as connection:
            removed = connection.execute(statement).all()
            for chat_id, uid, number in removed:
                note_changes(connection, EventKind.SCHEDULE, chat_id, [(uid, number)], EventChange.DONE)
            return len(removed)


def _update(
    connection: Connection,
    chat_id: str,
    where: Iterable[ColumnElement[bool]],
    values: dict[str, Any],
    what: EventChange,
) -> bool:
    statement = sa.update(schedules).where(*where).values(values).returning(schedules.c.uid, schedules.c.number)
    changed = [(row.uid, row.number) for row in connection.execute(statement)]
    note_changes(connection, EventKind.SCHEDULE, chat_id, changed, what)
    return bool(changed)


def _schedule(row: Row[Any]) -> Schedule:
    values = row._asdict()
    return Schedule(**(values | {"kind": ScheduleKind(values["kind"])}))
