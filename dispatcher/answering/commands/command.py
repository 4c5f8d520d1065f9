"""A command as a message of the chat, and its reply. A button below a message is such a command, too (shared/turns/signed.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from shared.errors import HmemError
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.records import Task, Turn
from shared.turns.signed import Keyboard

_COMMAND = re.compile(r"\A/(?P<name>[a-z]{1,16})(?:@\w+)?(?:\s+(?P<text>.*))?\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class CommandReply:
    """The answer to a command; `forgotten`: whether something was forgotten; `error`: the text says why it could not be carried out; `corrected`: an
    earlier turn that is written anew.

    `reply_command`: a reply to this answer is this command with the reply's text.
    """

    text: str
    forgotten: bool = False
    error: bool = False
    buttons: Keyboard = ()
    reply_command: str = ""
    corrected: Turn | None = None


class Handler(Protocol):
    """Carries out one command. HmemError if it cannot be done now."""

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        """`text`: what follows the name; `now` in POSIX seconds."""
        ...


def read_command(message: str) -> tuple[str, str] | None:
    """Name and text of the command that a message could be (`/remind tomorrow 9:00 tea`); None for any other message."""
    found = _COMMAND.match(message.strip())
    return (found["name"].lower(), (found["text"] or "").strip()) if found else None


log = Logger()

UNAVAILABLE = later("Sorry, my memory is not available at the moment. Please try again later.")


class CommandRegistry:
    """One per dispatcher: commands by their names, which are those of `dispatcher_commands` (dispatcher/queue/chat_commands.py), by which the bot
    passes them on; and what is done with edited messages."""

    def __init__(self, edited: Handler, *handlers: Mapping[str, Handler]) -> None:
        self._edited = edited
        self._handlers = {name: one for some in handlers for name, one in some.items()}

    def of(self, task: Task) -> tuple[Handler, str] | None:
        """What carries out a message, and its text; None for a question. A forwarded or scheduled command does not count, and the caption of a file
        only for a handler with `takes_files`."""
        if task.edited:
            return self._edited, ""
        name, text = read_command(task.message) or ("", "")
        handler = self._handlers.get(name)
        if handler is None or task.origin.forward or task.scheduled:
            return None
        return None if task.media and not getattr(handler, "takes_files", False) else (handler, text)

    async def question(self, task: Task) -> Task | None:
        """What Claude is asked: a question with its newest text, or the earlier message of `/retry`; None for any other command, and where there is
        no such message."""
        handler, text = self.of(task) or (self._edited, "")
        with suppress(HmemError):  # the command apologises
            if ask := getattr(handler, "question", None):
                found = await ask(task, text)
                return found if isinstance(found, Task) else None
        return None

    async def reply_to(self, task: Task, command: tuple[Handler, str], now: float) -> CommandReply:
        """Never fails: a store that cannot be reached is answered with an apology."""
        handler, text = command
        try:
            return await handler.reply_to(task, text, now)
        except HmemError as error:
            log.error("a command could not be carried out", command=type(handler).__name__, reason=str(error))
            return CommandReply(tr(UNAVAILABLE), error=True)
