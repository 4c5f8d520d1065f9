"""Schedules as people are shown them, and how a new one is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.schedule_dates import DueTime, read_when
from dispatcher.memory.dates.wall_clock import RepeatRule, exact_text
from dispatcher.memory.store.schedules import Schedule, ScheduleKind
from shared.errors import InvalidInput
from shared.text.format import one_line, shorten

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.schedules import Schedules
    from dispatcher.memory.typed.tags import Tag
    from shared.turns.records import Task

#: The longest text of a schedule, and the longest that a list shows of it. Characters.
LONGEST_TEXT, QUOTED = 1_000, 120
#: The most schedules of a chat.
MOST_SCHEDULES = 100
TOO_MANY = f"This chat has {MOST_SCHEDULES} reminders and scheduled questions, which is the most. Delete one first."
_TITLES = {ScheduleKind.REMINDER: "Reminder", ScheduleKind.QUESTION: "Question"}


def read_tag(tag: Tag, now: float, zone: ZoneInfo) -> DueTime:
    """When the reminder of a tag is due; InvalidInput if that is no date to come."""
    if not tag.deadline:
        raise InvalidInput("it has no date (WHEN).")
    return read_when(tag.deadline, now, zone)


def new_schedule(
    task: Task, kind: ScheduleKind, text: str, due: DueTime, now: float, zone: ZoneInfo, *, from_turn: bool = False
) -> Schedule:
    """InvalidInput for a text that is too long. `from_turn`: the task's message is stored as a turn."""
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(f"The text has {len(text)} characters, and at most {LONGEST_TEXT} are kept. Shorten it.")
    return Schedule(
        task.chat_id,
        kind,
        text,
        zone.key,
        due.at,
        now,
        task.user_id,
        task.name,
        rule=str(due.rule) if due.rule else "",
        clock=due.clock.isoformat("minutes") if due.rule else "",
        source_turn=f"{task.task_id}:user" if from_turn else None,
    )


def add_schedule(table: Schedules, new: Schedule, connection: Connection) -> str:
    """Stores it in this transaction; the sentence that confirms it, or why it was not stored."""
    if table.count(new.chat_id, connection) >= MOST_SCHEDULES:
        return TOO_MANY
    return confirmed_text(table.add(new, connection))


def add_reminder(
    table: Schedules, task: Task, text: str, due: DueTime, now: float, zone: ZoneInfo, connection: Connection
) -> str:
    """What a tag asks for."""
    return add_schedule(
        table, new_schedule(task, ScheduleKind.REMINDER, text, due, now, zone, from_turn=True), connection
    )


def confirmed_text(one: Schedule) -> str:
    """`Reminder 3: Monday 30 November 2026, 09:00 (Europe/Berlin)`, of a repeating one with its rule."""
    at = one.waits_for
    when = exact_text(at, ZoneInfo(one.zone)) if at is not None else "over"
    repeats = f", then {RepeatRule.parse(one.rule).in_words} at {one.clock}" if one.rule else ""
    return f"{_TITLES[one.kind]} {one.number}: {when}{repeats}"


def line_of(one: Schedule) -> str:
    """One line of a list."""
    return f"{one.number}. {shorten(one_line(one.text), QUOTED)} ({confirmed_text(one).partition(': ')[2]})"


def due_text(one: Schedule, moment: float, *, late: bool) -> str:
    """What is sent when a reminder is due."""
    was = f"\n(It was due {exact_text(moment, ZoneInfo(one.zone))}.)" if late else ""
    return f"Reminder {one.number}: {one.text}{was}"
