"""Schedules as people are shown them, and how a new one is stored, also by the tag REMIND of an answer."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from dispatcher.features.schedules.schedule_dates import DueTime, read_when
from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from dispatcher.features.schedules.wall_clock import RepeatRule
from dispatcher.memory.day.parts import DayParts
from dispatcher.memory.typed.actions import Outcome, sentence_only
from dispatcher.memory.typed.tags import AnswerTags, Tag
from shared.errors import InvalidInput
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import exact_text
from shared.turns.records import Task

#: The longest text of a schedule, and the longest that a list shows of it. Characters.
LONGEST_TEXT, QUOTED = 1_000, 120
#: The most of a chat. Each is due once a day at most, so this is also how many questions a chat asks, and pays for, in a day.
MOST = {ScheduleKind.REMINDER: 100, ScheduleKind.QUESTION: 10}
TOO_MANY = later("This chat has {most} of these, which is the limit. Delete one first.")
TOO_LONG = later("The text has {count} characters, and at most {most} are kept. Shorten it.")
CONFIRMED = {
    ScheduleKind.REMINDER: later("Reminder {number}: {when}"),
    ScheduleKind.QUESTION: later("Question {number}: {when}"),
}
LISTED = later("{number}. {text} ({when})")


def new_schedule(
    task: Task, kind: ScheduleKind, text: str, due: DueTime, now: float, zone: ZoneInfo, *, from_turn: bool = False
) -> Schedule:
    """InvalidInput for a text that is too long. `from_turn`: the task's message is stored as a turn."""
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(tr(TOO_LONG).format(count=len(text), most=LONGEST_TEXT))
    rule, clock = (str(due.rule), due.clock.isoformat("minutes")) if due.rule else ("", "")
    turn, who = f"{task.task_id}:user" if from_turn else None, (task.user_id, task.name)
    return Schedule(task.chat_id, kind, text, zone.key, due.at, now, *who, rule, clock, source_turn=turn)


def add_schedule(table: Schedules, new: Schedule, connection: Connection) -> str:
    """Stores it in this transaction; the sentence that confirms it, or why it was not stored."""
    alike = [row for row in table.rows(new.chat_id, connection) if row.kind == new.kind]
    if len(alike) >= MOST[new.kind]:
        return tr(TOO_MANY).format(most=MOST[new.kind])
    return confirmed_text(table.add(new, connection))


def planned_reminder(day: DayParts, answer: AnswerTags, tag: Tag) -> Callable[[Connection], Outcome]:
    """What a tag of an answer sets."""
    now, zone = answer.said_at, day.zone_of(answer.task.chat_id)
    when, every = tag.options.get("WHEN", ""), tag.options.get("EVERY", "")
    try:
        if not when and not every:
            raise InvalidInput(tr("it has no date (WHEN)."))
        due = read_when(when, now, zone, every)
        new = new_schedule(answer.task, ScheduleKind.REMINDER, tag.text, due, now, zone, from_turn=True)
    except InvalidInput as error:
        return sentence_only(tr("I did not set a reminder: {reason}").format(reason=error))
    return lambda connection: Outcome(add_schedule(Schedules(day.database), new, connection))


def confirmed_text(one: Schedule) -> str:
    """`Reminder 3: Monday 30 November 2026, 09:00 (Europe/Berlin)`, of a repeating one with its rule."""
    return _filled(CONFIRMED[one.kind], one)


def line_of(one: Schedule) -> str:
    """One line of a list."""
    return _filled(LISTED, one)


def _filled(form: str, one: Schedule) -> str:
    at = one.waits_for
    when = exact_text(at, ZoneInfo(one.zone)) if at is not None else tr("over")
    if one.rule:
        rule = RepeatRule.parse(one.rule).in_words
        when = tr("{when}, then {rule} at {clock}").format(when=when, rule=rule, clock=one.clock)
    return tr(form).format(number=one.number, text=shorten(one_line(one.text), QUOTED), when=when)


def due_text(one: Schedule, moment: float, *, late: bool) -> str:
    """What is sent when a reminder is due."""
    text = tr("Reminder {number}: {text}").format(number=one.number, text=one.text)
    if not late:
        return text
    return f"{text}\n" + tr("(It was due {when}.)").format(when=exact_text(moment, ZoneInfo(one.zone)))
