"""Schedules as people are shown them, and how a new one is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.dates.schedule_dates import DueTime
from dispatcher.memory.dates.wall_clock import RepeatRule, exact_text
from dispatcher.memory.store.schedules import Schedule, ScheduleKind
from shared.errors import InvalidInput
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from dispatcher.memory.store.schedules import Schedules
    from shared.turns.records import Task

#: The longest text of a schedule, and the longest that a list shows of it. Characters.
LONGEST_TEXT, QUOTED = 1_000, 120
#: The most schedules of a chat.
MOST_SCHEDULES = 100
TOO_MANY = later("This chat has {most} reminders and scheduled questions, which is the limit. Delete one first.")
TOO_LONG = later("The text has {count} characters, and at most {most} are kept. Shorten it.")
#: One that comes once, and one that repeats.
CONFIRMED = {
    ScheduleKind.REMINDER: (
        later("Reminder {number}: {when}"),
        later("Reminder {number}: {when}, then {rule} at {clock}"),
    ),
    ScheduleKind.QUESTION: (
        later("Question {number}: {when}"),
        later("Question {number}: {when}, then {rule} at {clock}"),
    ),
}
LISTED = later("{number}. {text} ({when})"), later("{number}. {text} ({when}, then {rule} at {clock})")


def new_schedule(
    task: Task, kind: ScheduleKind, text: str, due: DueTime, now: float, zone: ZoneInfo, *, from_turn: bool = False
) -> Schedule:
    """InvalidInput for a text that is too long. `from_turn`: the task's message is stored as a turn."""
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(tr(TOO_LONG).format(count=len(text), most=LONGEST_TEXT))
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
        return tr(TOO_MANY).format(most=MOST_SCHEDULES)
    return confirmed_text(table.add(new, connection))


def confirmed_text(one: Schedule) -> str:
    """`Reminder 3: Monday 30 November 2026, 09:00 (Europe/Berlin)`, of a repeating one with its rule."""
    return _filled(CONFIRMED[one.kind], one)


def line_of(one: Schedule) -> str:
    """One line of a list."""
    return _filled(LISTED, one)


def _filled(forms: tuple[str, str], one: Schedule) -> str:
    at, once, repeats = one.waits_for, *forms
    when = exact_text(at, ZoneInfo(one.zone)) if at is not None else tr("over")
    rule = RepeatRule.parse(one.rule).in_words if one.rule else ""
    text = shorten(one_line(one.text), QUOTED)
    return tr(repeats if rule else once).format(number=one.number, text=text, when=when, rule=rule, clock=one.clock)


def due_text(one: Schedule, moment: float, *, late: bool) -> str:
    """What is sent when a reminder is due."""
    text = tr("Reminder {number}: {text}").format(number=one.number, text=one.text)
    if not late:
        return text
    return f"{text}\n" + tr("(It was due {when}.)").format(when=exact_text(moment, ZoneInfo(one.zone)))
