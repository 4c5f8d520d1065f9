"""Sends reminders and asks scheduled questions when they are due, each once, whichever of several dispatchers does it.

    due in the store ─ script: mark, and outbox or queue ─ the store goes on to the next moment

The script sets a mark for each occurrence together with what it sends, so a crash before the store goes on sends nothing twice: the next round finds
the mark, and only goes on. What was due while no dispatcher ran comes late and says so; of a repeating one that was missed several times, one comes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from redis import Redis

from dispatcher.features.schedules.table import Schedule, ScheduleKind, Schedules
from dispatcher.features.schedules.wording import due_text
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.chats import chosen_language, is_closed
from dispatcher.queue.scripts import script_text
from dispatcher.queue.state import read_holds
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.text.translations import speaking, tr
from shared.turns.message_origin import is_group
from shared.turns.records import dumps
from shared.turns.signed import Button, keyboard_json, secret_in, sign_record
from shared.wire import keys
from shared.wire.ids import bot_of

log = Logger()

#: Schedules of one round; the rest is sent in the next one, at once.
PER_ROUND = 200
#: Seconds between two looks when nothing is due before: what is due sooner has been set just now.
LONGEST_WAIT, SHORTEST_WAIT = 10.0, 0.2
#: How long one that is over can be snoozed; the button below it is valid for two days.
KEPT_SECONDS = 7 * 86_400.0
#: … while questions are held (postpone.lua).
HELD_WAIT = 2.0
#: From so many seconds on, what comes is late, and says so.
LATE_SECONDS = 60.0
#: Our bot's chats have numbers: an answer to another chat would wait for ever.
_OUR_CHAT = re.compile(r"-?[0-9]+")


class ScheduleSender:
    """One per dispatcher; slow, so it runs in a thread."""

    def __init__(self, day: DayMemory, client: Redis, now: Callable[[], float] = time.time) -> None:
        self._day, self._now, self._client = day, now, client
        self._allowed, self._secret = day.settings.allowed, secret_in(day.settings)
        self._remind = client.register_script(script_text("queue/remind"))
        self._ask: Any = client.register_script(script_text("features/schedules/ask_scheduled"))

    def round(self) -> float:
        """Send what is due; returns the seconds until the next look. HmemError or RedisError if store or Redis do not answer."""
        now, table = self._now(), Schedules(self._day.database)
        due = table.due(now, PER_ROUND)
        held, waits = read_holds(self._client, now - LATE_SECONDS) if due else {}, False
        for one in due:
            moment = one.waits_for
            if moment is None:
                continue
            if one.chat_id not in self._allowed and is_closed(self._client, one.chat_id):
                log.info("a schedule of a chat that was removed is not carried out", chat=one.chat_id)
                table.advance(one, now)
                continue
            if one.kind is ScheduleKind.QUESTION and (one.chat_id in held or "" in held):
                waits = True  # behind what waits already, a question at the head of the queue would overtake it
                continue
            send = self._send_reminder if one.kind is ScheduleKind.REMINDER else self._ask_question
            language = chosen_language(self._client, one.chat_id)
            with speaking(language):
                send(one, moment, now, language)
            crash_point("schedules:sent")
            table.advance(one, now)
        if waits:
            return HELD_WAIT
        if len(due) == PER_ROUND:
            return 0.0
        if not due:
            table.prune(now - KEPT_SECONDS)  # it waits for whoever writes, as no reminder shall
        at = table.next_due()
        wait = LONGEST_WAIT if at is None else at - self._now()
        return max(SHORTEST_WAIT, min(LONGEST_WAIT, wait))

    def _send_reminder(self, one: Schedule, moment: float, now: float, _: str | None) -> None:
        name, outbox = f"schedule-{one.name_of(moment)}", keys.outbox(bot_of(one.chat_id))
        message = {
            "id": f"reminder-{name}",
            "chat_id": one.chat_id,
            "text": due_text(one, moment, late=now - moment >= LATE_SECONDS),
            "created_at": now,
            "buttons": keyboard_json(_buttons(one.number)),
        }
        message |= {"user_id": one.user_id} if one.user_id else {}
        self._remind(
            keys=[keys.reminded(name), outbox],
            args=[sign_record(self._secret, outbox, message), keys.REMINDED_TTL_SECONDS],
        )

    def _ask_question(self, one: Schedule, moment: float, now: float, language: str | None) -> None:
        name, chat_id = one.name_of(moment), one.chat_id
        task_id = f"every-{name}"
        task = {"task_id": task_id, "chat_id": chat_id, "message": one.text, "submitted_at": now, "scheduled": True}
        task |= {"user_id": one.user_id} if one.user_id else {}
        task |= {"name": one.name} if one.name else {}
        task |= {"language": language} if language else {}
        task |= {"chat_type": "group" if is_group(chat_id) else "private"}
        waiting = {"chat": chat_id, "at": now} | ({"user": one.user_id} if one.user_id else {})
        waiting |= {"language": language} if language else {}
        bot = keys.bot_waiting(bot_of(chat_id))
        awaited = sign_record(self._secret, f"{bot} {task_id}", waiting) if _OUR_CHAT.fullmatch(chat_id) else b""
        self._ask(
            keys=[keys.reminded(f"schedule-{name}"), keys.TASKS, bot],
            args=[dumps(task), task_id, awaited, keys.REMINDED_TTL_SECONDS],
        )


def _buttons(number: int) -> tuple[tuple[Button, ...], ...]:
    snooze = [(tr("10 min"), "10m"), (tr("1 h"), "1h"), (tr("Tomorrow"), "tomorrow")]
    return (
        (Button(tr("Done"), f"/remind done {number}"),),
        tuple(Button(label, f"/remind snooze {number} {until}") for label, until in snooze),
    )
