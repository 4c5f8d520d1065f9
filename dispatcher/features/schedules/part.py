"""This feature's part of a dispatcher: the commands, and the sender in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog
from redis import RedisError

from dispatcher.answering.commands.command import CommandReply, Handler
from dispatcher.answering.hooks import Core
from dispatcher.features.schedules.settings import ScheduleSettings
from shared.errors import HmemError
from shared.hooks import hook
from shared.text.translations import later, tr
from shared.turns.records import Task

log = structlog.get_logger()

#: Seconds until it is tried again when store or Redis do not answer.
RETRY_SECONDS = 5.0
NO_STORE = later("I cannot keep reminders: DAY_STORE_URL switches the day store off.")


class _Command:
    """`/remind` or `/every`, whose module loads the libraries of the day store."""

    def __init__(self, core: Core, limit: int, kind: str) -> None:
        """`limit`: SCHEDULE_LIMIT; `kind`: of `ScheduleKind`."""
        self._core, self._limit, self._kind = core, limit, kind

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        if not self._core.day.wanted:
            return CommandReply(tr(NO_STORE))
        from dispatcher.features.schedules.commands import ScheduleCommands
        from dispatcher.features.schedules.table import ScheduleKind

        commands = ScheduleCommands(self._core.day, self._core.rights, self._limit, ScheduleKind[self._kind])
        return await commands.reply_to(task, text, now)


class SchedulesPart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._core, self._limit = core, core.settings.of(ScheduleSettings).schedule_limit

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        made = {"remind": "REMINDER", "every": "QUESTION"}
        return {name: _Command(self._core, self._limit, kind) for name, kind in made.items()}

    @hook
    async def background(self) -> None:
        """Send what is due, to the minute."""
        if not self._core.day.wanted:
            return
        from dispatcher.features.schedules.sender import ScheduleSender

        sender = ScheduleSender(self._core.day, self._core.background, self._limit)
        while True:
            seconds = RETRY_SECONDS
            try:
                seconds = await asyncio.to_thread(sender.round)
            except (HmemError, RedisError) as error:
                log.warning("reminders wait for store or Redis", reason=str(error))
            except Exception:  # whatever it is, there must be a next round
                log.exception("a round of reminders failed")
            await asyncio.sleep(seconds)
