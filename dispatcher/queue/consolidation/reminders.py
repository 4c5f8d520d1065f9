"""Messages that nobody has asked for just now: reminders of goals go into the outbox, and what no bot has fetched is dropped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis import Redis

from dispatcher.queue.scripts import script_text
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.turns.records import RecordRefused, loads_object, timestamp_of
from shared.turns.signed import secret_in, sign_record
from shared.wire import keys
from shared.wire.ids import bot_names, bot_of

if TYPE_CHECKING:
    from dispatcher.memory.day.memory import DayMemory
    from dispatcher.memory.store.memories import Memory

log = Logger()

#: Goals that are checked in one round.
REMINDERS_PER_ROUND = 10_000
#: A chat's newest turns by which a reminder has its language.
TURNS_LOOKED_AT = 20
#: Messages that no bot has fetched are dropped after this many days: a reminder is about the next day. h-cli's bot fetches none.
UNFETCHED_DAYS = 3
SECONDS_PER_DAY = 86_400.0


class Reminders:
    """`now` is their clock."""

    def __init__(self, day: DayMemory, client: Redis, now: Callable[[], float]) -> None:
        self._day, self._now = day, now
        self._redis: Any = client  # it returns bytes; the library's types are bytes or str
        self._remind_once = client.register_script(script_text("queue/remind"))

    def remind(self) -> None:
        """Send reminders, then mark them in the store; the script sends each only once, so a crash in between sends no second one."""
        from dispatcher.memory.dates.reminders import EARLIEST_SECONDS, reminder_time

        now = self._now()
        for memory in self._day.memories.due(now + EARLIEST_SECONDS, REMINDERS_PER_ROUND):
            deadline, zone = memory.deadline or now, self._day.zone_of(memory.chat_id)
            when = reminder_time(deadline, memory.created, zone)
            if when is not None and now < when:
                continue
            if memory.memory_id in {one.memory_id for one in self._day.remembering.of_chat(memory.chat_id).memories}:
                if when is not None:
                    self._send(memory, deadline, now)
            elif deadline >= now:
                continue  # Superseded or forgotten. It may be valid again before its deadline; afterwards it must not count among the most urgent.
            self._day.memories.mark_reminded(memory.chat_id, memory.memory_id, now)

    def _send(self, memory: Memory, deadline: float, now: float) -> None:
        """Put it into the outbox, once per memory even after a crash."""
        from dispatcher.memory.dates.reminders import language_of_answers, reminder_text
        from dispatcher.memory.store.whose import said_text
        from dispatcher.queue.chats import chosen_language
        from shared.text.translations import speaking

        chat_id = memory.chat_id
        recent = [one.turn for one in self._day.turns.newest(chat_id, TURNS_LOOKED_AT)]
        with speaking(chosen_language(self._redis, chat_id) or language_of_answers(recent, memory.text)):
            text = reminder_text(said_text(memory), deadline, now, self._day.zone_of(chat_id))
        message = {"id": f"reminder-{memory.uid}", "chat_id": chat_id, "text": text, "created_at": now}
        names = [keys.reminded(memory.uid), keys.outbox(bot_of(chat_id))]
        signed = sign_record(secret_in(self._day.settings), names[1], message)
        self._remind_once(keys=names, args=[signed, keys.REMINDED_TTL_SECONDS])
        crash_point("consolidation:reminded")

    def drop_unfetched(self) -> None:
        """From the oldest on, what is older than UNFETCHED_DAYS, or has a date far from our clock."""
        dropped = 0
        for outbox in map(keys.outbox, bot_names()):
            while (raw := self._redis.lindex(outbox, 0)) is not None:
                with suppress(RecordRefused):  # we did not write it
                    age = abs(self._now() - timestamp_of(loads_object(raw).get("created_at")))
                    if age < UNFETCHED_DAYS * SECONDS_PER_DAY:
                        break
                dropped += int(self._redis.lrem(outbox, 1, raw))
        if dropped:
            log.warning("messages that no bot has fetched are dropped", messages=dropped, days=UNFETCHED_DAYS)
