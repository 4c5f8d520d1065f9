"""The tag REMIND: a reminder that Claude sets when somebody asks it to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatcher.memory.typed.actions import Outcome, sentence_only
from dispatcher.memory.typed.tags import AnswerTags, Tag, TagOfFeature
from shared.errors import InvalidInput
from shared.text.translations import tr

if TYPE_CHECKING:
    from dispatcher.memory.day.parts import DayParts
    from dispatcher.memory.typed.actions import Effect


def plan(day: DayParts, answer: AnswerTags, tag: Tag) -> Effect:
    from dispatcher.memory.dates.schedule_dates import read_when
    from dispatcher.memory.store.schedules import ScheduleKind
    from dispatcher.memory.typed.scheduling import add_schedule, new_schedule

    task, now, zone = answer.task, answer.said_at, day.zone_of(answer.task.chat_id)
    when, every = tag.options.get("WHEN", ""), tag.options.get("EVERY", "")
    try:
        if not when and not every:
            raise InvalidInput(tr("it has no date (WHEN)."))
        due = read_when(when, now, zone, every)
        new = new_schedule(task, ScheduleKind.REMINDER, tag.text, due, now, zone, from_turn=True)
    except InvalidInput as error:
        return sentence_only(tr("I did not set a reminder: {reason}").format(reason=error))
    return lambda connection: Outcome(add_schedule(day.schedules, new, connection))


TAG = TagOfFeature(
    "REMIND",
    ("WHEN", "EVERY"),
    "`[REMIND CODE: text | WHEN: 2026-11-14T07:00 | EVERY: mon]` (or: day, weekday, month on 24)",
    plan,
)
