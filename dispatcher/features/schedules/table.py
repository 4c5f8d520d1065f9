"""Reminders and scheduled questions of all chats, by number within a chat."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import time
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from dispatcher.features.schedules.wall_clock import RepeatRule, next_moment
from dispatcher.memory.hooks import Coming, FeatureTable
from dispatcher.memory.store.database import Database
from dispatcher.memory.store.feature_rows import FeatureRows
from dispatcher.memory.store.rows import checked_chat
from dispatcher.memory.store.tables import NUMBER, metadata
from shared.turns.events import EventChange

#: `due` is the next moment by the rule, `snoozed` one more; without both it is over, and stays for a while to be snoozed. `rule` is empty for one
#: that comes once.
schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("schedule_id", NUMBER, primary_key=True, autoincrement=True),
    sa.Column("chat_id", sa.Text, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("user_id", sa.Text),
    sa.Column("name", sa.Text),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("clock", sa.Text, nullable=False),
    sa.Column("zone", sa.Text, nullable=False),
    sa.Column("due", sa.Double),
    sa.Column("snoozed", sa.Double),
    sa.Column("last_due", sa.Double),
    sa.Column("source_turn", sa.Text),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("uid", sa.Text),
    sa.UniqueConstraint("chat_id", "number", name="schedules_by_number"),
    sa.Index("schedules_by_uid", "uid", unique=True),
    sa.Index("schedules_by_due", "due"),
    sa.Index("schedules_by_snooze", "snoozed"),
    sqlite_autoincrement=True,
)
#: The most that are to come at once.
MOST_COMING = 200


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


class Schedules(FeatureRows):
    """The table of schedules. StoreUnavailable if the store cannot be reached."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, TABLE)

    def add(self, new: Schedule, connection: Connection | None = None) -> Schedule:
        """The schedule with its number and id."""
        values = {name: value for name, value in vars(new).items() if name != "schedule_id"}
        return _schedule(self.insert(values | {"kind": str(new.kind)}, connection))

    def every(self, chat_id: str | None = None) -> list[Schedule]:
        """All of one chat or of all chats, including past ones."""
        return [_schedule(row) for row in self.rows(chat_id)]

    def of_chat(self, chat_id: str, kind: ScheduleKind | None = None) -> list[Schedule]:
        """Those that are still to come, the next one first."""
        open_ = [one for one in self.every(chat_id) if one.waits_for is not None and kind in (None, one.kind)]
        return sorted(open_, key=lambda one: (one.waits_for or 0.0, one.number))

    def by_number(self, chat_id: str, number: int) -> Schedule | None:
        return next((one for one in self.every(chat_id) if one.number == number), None)

    def due(self, now: float, most: int) -> list[Schedule]:
        """Those whose moment has come, the earliest first."""
        with self._database.reading() as connection:
            return _due(connection, now, most)

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
            return self.noted(connection, sa.update(schedules).where(*same).values(values), EventChange.DUE) > 0

    def snooze(self, chat_id: str, number: int, until: float | None, connection: Connection | None = None) -> bool:
        """Send it once more at this time; None takes that back. Whether it exists."""
        this = sa.update(schedules).where(schedules.c.chat_id == checked_chat(chat_id), schedules.c.number == number)
        with self._database.joined(connection) as used:
            return self.noted(used, this.values(snoozed=until), EventChange.CHANGED) > 0

    def prune(self, before: float) -> bool:
        """Remove the ones that ended before a time; whether there were any."""
        over = (schedules.c.due.is_(None), schedules.c.snoozed.is_(None), schedules.c.last_due < before)
        with self._database.begin() as connection:
            return self.noted(connection, sa.delete(schedules).where(*over), EventChange.DONE) > 0


def _due(connection: Connection, until: float, most: int, chats: Collection[str] | None = None) -> list[Schedule]:
    come = [sa.or_(schedules.c.due <= until, schedules.c.snoozed <= until)]
    come += [] if chats is None else [schedules.c.chat_id.in_(chats)]
    order = sa.func.coalesce(schedules.c.due, schedules.c.snoozed)
    return [_schedule(row) for row in connection.execute(sa.select(schedules).where(*come).order_by(order).limit(most))]


def _coming(connection: Connection, chats: Collection[str] | None, until: float) -> Iterator[Coming]:
    for one in _due(connection, until, MOST_COMING, chats):
        yield Coming(one.waits_for or until, one.chat_id, one.kind, one.text, one.created, one.user_id, one.name)


EXPORTED = tuple("kind text zone due created user_id name rule clock snoozed last_due source_turn number".split())
TABLE = FeatureTable(
    schedules, "schedule", "reminders and scheduled questions", "reminder", "reminders", EXPORTED, _coming
)


def _schedule(row: Row[Any]) -> Schedule:
    values = row._asdict()
    return Schedule(**(values | {"kind": ScheduleKind(values["kind"])}))
