"""This feature's part of a dispatcher: the commands, and the sender in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from dispatcher.answering.commands.command import CommandReply, Handler
from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import look_again
from shared.hooks import hook
from shared.text.translations import later, tr
from shared.turns.records import Task

#: Seconds until it is tried again when store or Redis do not answer.
RETRY_SECONDS = 5.0
NO_STORE = later("I cannot keep reminders: DAY_STORE_URL switches the day store off.")


class _Command:
    """`/remind` or `/every`, whose module loads the libraries of the day store."""

    def __init__(self, core: Core, kind: str) -> None:
        """`kind`: of `ScheduleKind`."""
        self._core, self._kind = core, kind

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        if not self._core.day.wanted:
            return CommandReply(tr(NO_STORE))
        from dispatcher.features.schedules.commands import ScheduleCommands
        from dispatcher.features.schedules.table import ScheduleKind

        commands = ScheduleCommands(self._core.day, self._core.rights, ScheduleKind[self._kind])
        return await commands.reply_to(task, text, now)


class SchedulesPart:
    """One per dispatcher."""

    def __init__(self, core: Core) -> None:
        self._core = core

    @hook
    def chat_commands(self) -> Mapping[str, Handler]:
        return {"remind": _Command(self._core, "REMINDER"), "every": _Command(self._core, "QUESTION")}

    @hook
    async def background(self) -> None:
        """Send what is due, to the minute."""
        if not self._core.day.wanted:
            return
        from dispatcher.features.schedules.sender import ScheduleSender

        sender = ScheduleSender(self._core.day, self._core.background)
        await look_again("reminders", partial(asyncio.to_thread, sender.round), RETRY_SECONDS)
