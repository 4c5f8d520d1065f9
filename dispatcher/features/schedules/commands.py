"""`/remind` and `/every`: reminders, and questions that are asked at set times."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from dispatcher.answering.commands.command import CommandReply
from dispatcher.features.schedules.schedule_dates import read_repeating, read_request, read_when
from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from dispatcher.features.schedules.wording import QUOTED, add_schedule, line_of, new_schedule
from dispatcher.memory.dates.coming_times import both_readings
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.rights import Rights
from shared.errors import InvalidInput
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.text.translations.dates import exact_text, long_date
from shared.turns.records import Task
from shared.turns.signed import BUTTONS_MOST, Button, Keyboard

ASKING = later("In a group only an owner may schedule questions.")
CHANGING = later("In a group only an owner may change what somebody else has set.")
REMIND_USAGE = later(
    "/remind tomorrow 9:00 buy bread\n"
    "/remind in 20 minutes tea\n"
    "/remind every monday 8:00 standup (or: every day, every weekday, every month on 24)\n"
    "/remind shows all; /remind delete N deletes one"
)
EVERY_USAGE = later(
    "/every monday 8:00 What is new in …? asks me that at this time, and I send the answer\n"
    "/every day 7:30 …, /every weekday 9:00 …, /every month on 24 18:00 …\n"
    "/every shows all; /every delete N ends one"
)
#: The longest command that every bot's button can carry. Bytes.
BUTTON_BYTES = 38
_NUMBERED = re.compile(
    r"(?P<verb>done|delete|snooze)\s+(?P<number>[0-9]{1,9})(?:\s+(?P<until>.+))?", re.IGNORECASE | re.DOTALL
)
_SPAN = re.compile(r"(?P<count>[1-9][0-9]{0,3})\s*(?P<unit>[mhd])", re.IGNORECASE)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class ScheduleCommands:
    """One for `/remind` and one for `/every`, which costs something, so that in a group it is the owners'."""

    def __init__(self, day: DayMemory, rights: Rights, kind: ScheduleKind) -> None:
        self._day, self._rights, self._kind = day, rights, kind
        self._asks = kind is ScheduleKind.QUESTION
        self._name, self._usage = ("/every", EVERY_USAGE) if self._asks else ("/remind", REMIND_USAGE)

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        if text and self._asks and (refusal := self._rights.refusal(ASKING, task.in_group, task.user_id)):
            return CommandReply(refusal)
        try:
            return await asyncio.to_thread(self._reply, task, text, now)
        except InvalidInput as error:
            return CommandReply(str(error))

    def _reply(self, task: Task, text: str, now: float) -> CommandReply:
        if not text:
            return self._listing(task)
        if numbered := _NUMBERED.fullmatch(text):
            return self._on_number(task, numbered, now)
        if text.lower() in ("help", "done", "delete", "snooze"):
            return CommandReply(tr(self._usage))
        return self._which_day(task, text, now) or CommandReply(self._added(task, text, now))

    def _which_day(self, task: Task, text: str, now: float) -> CommandReply | None:
        """A date that is one day in America and another in Europe is asked about, with a button for each."""
        today = datetime.fromtimestamp(now, self._day.zone_of(task.chat_id)).date()
        buttons = [Button(long_date(day), f"{self._name} {said}") for day, said in both_readings(text, today)]
        fit = buttons and all(len(one.command.encode()) <= BUTTON_BYTES for one in buttons)
        return CommandReply(tr("Which day do you mean?"), buttons=(tuple(buttons),)) if fit else None

    def _added(self, task: Task, text: str, now: float) -> str:
        zone = self._day.zone_of(task.chat_id)
        if (done := self._day.actions.outcome(task.chat_id, task.task_id, 0)) is not None:
            return done
        due, words = (read_repeating if self._asks else read_request)(text, now, zone)
        new = new_schedule(task, self._kind, words, due, now, zone)
        return self._once(task, lambda connection: add_schedule(self._table, new, connection), now)

    def _listing(self, task: Task) -> CommandReply:
        listed = self._table.of_chat(task.chat_id, self._kind)
        if not listed:
            return CommandReply("\n".join([tr("There are none."), tr(self._usage)]))
        buttons = [
            Button(tr("Delete {number}").format(number=one.number), f"{self._name} delete {one.number}")
            for one in listed[:BUTTONS_MOST]
        ]
        rows: Keyboard = tuple(tuple(buttons[at : at + 4]) for at in range(0, len(buttons), 4))
        return CommandReply("\n".join(map(line_of, listed)), buttons=rows)

    def _on_number(self, task: Task, given: re.Match[str], now: float) -> CommandReply:
        number, verb = int(given["number"]), given["verb"].lower()
        one = self._table.by_number(task.chat_id, number)
        until = self._until(task, given["until"], now) if verb == "snooze" else None
        mine = one is None or one.kind is not self._kind or one.user_id in (None, task.user_id)
        if not mine and (refusal := self._rights.refusal(CHANGING, task.in_group, task.user_id)):
            return CommandReply(refusal)

        def effect(connection: Connection) -> str:
            if one is None or one.kind is not self._kind:
                none = tr("There is no number {number}. {command} shows the numbers.")
                return none.format(number=number, command=self._name)
            return self._changed(one, verb, until, connection)

        return CommandReply(self._once(task, effect, now))

    def _changed(self, one: Schedule, verb: str, until: float | None, connection: Connection) -> str:
        quoted, zone = shorten(one_line(one.text), QUOTED), ZoneInfo(one.zone)
        if verb == "snooze" and until is not None:
            self._table.snooze(one.chat_id, one.number, until, connection)
            again = tr("Reminder {number} comes again {when}: {text}")
            return again.format(number=one.number, when=exact_text(until, zone), text=quoted)
        if verb == "done" and one.rule and one.due is not None:
            self._table.snooze(one.chat_id, one.number, None, connection)
            return tr("Done: {text}\nNext: {when}").format(text=quoted, when=exact_text(one.due, zone))
        self._table.remove(one.chat_id, one.number, connection)
        return (tr("Done: {text}") if verb == "done" else tr("Deleted: {text}")).format(text=quoted)

    def _until(self, task: Task, given: str | None, now: float) -> float:
        text = (given or "10m").strip()
        if span := _SPAN.fullmatch(text):
            text = f"in {span['count']} {_UNITS[span['unit'].lower()]}"
        return read_when(text, now, self._day.zone_of(task.chat_id)).at

    def _once(self, task: Task, effect: Callable[[Connection], str], now: float) -> str:
        """The outcome of this task, which may be repeated after a crash."""
        return self._day.actions.apply_once(task.chat_id, task.task_id, 0, str(self._kind), effect, now=now)

    @property
    def _table(self) -> Schedules:
        return Schedules(self._day.database)
