"""Which commands the dispatcher carries out, and by what."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from dispatcher.answering.commands.again import RetryCommand
from dispatcher.answering.commands.command import ChatCommand, CommandReply, Handler, read_command
from shared.errors import HmemError
from shared.text.translations import later, tr
from shared.turns.records import Task

log = structlog.get_logger()

UNAVAILABLE = later("Sorry, my memory is not available at the moment. Please try again later.")


class CommandRegistry:
    """One per dispatcher. Their names are those of `dispatcher_commands` (dispatcher/queue/chat_commands.py), by which the bot passes them on."""

    def __init__(self, *handlers: Mapping[str, Handler]) -> None:
        self._handlers = {name: one for some in handlers for name, one in some.items()}

    def of(self, task: Task) -> ChatCommand | None:
        """The command of a message, if it is one of ours; a forwarded or scheduled command does not count."""
        if task.origin.forward or task.media or task.scheduled:
            return None
        command = read_command(task.message)
        return command if command and command.name in self._handlers else None

    async def question(self, task: Task, command: ChatCommand) -> Task | None:
        """The task with the earlier message that `/retry` asks again; None for any other command, and where there is no such message."""
        retry = self._handlers[command.name]
        if not isinstance(retry, RetryCommand):
            return None
        try:
            found = await retry.question(task, command)
        except HmemError:  # the command apologises
            return None
        return found if isinstance(found, Task) else None

    async def reply_to(self, task: Task, command: ChatCommand, now: float) -> CommandReply:
        """Never fails: a store that cannot be reached is answered with an apology."""
        try:
            return await self._handlers[command.name].reply_to(task, command.text, now)
        except HmemError as error:
            log.error("a command could not be carried out", command=command.name, reason=str(error))
            return CommandReply(tr(UNAVAILABLE), error=True)
