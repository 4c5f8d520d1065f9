"""A command as a message of the chat, and its reply. A button below a message is such a command, too (shared/turns/signed/results.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from shared.turns.records import Task
from shared.turns.signed.results import Keyboard

_COMMAND = re.compile(r"\A/(?P<name>[a-z]{1,16})(?:@\w+)?(?:\s+(?P<text>.*))?\Z", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class ChatCommand:
    """`/remind tomorrow 9:00 tea` is `remind` with the text behind it."""

    name: str
    text: str = ""


@dataclass(frozen=True)
class CommandReply:
    """The answer to a command; `forgotten`: whether something was forgotten; `error`: the text says why it could not be carried out.

    `reply_command`: a reply to this answer is this command with the reply's text.
    """

    text: str
    forgotten: bool = False
    error: bool = False
    buttons: Keyboard = ()
    reply_command: str = ""


class Handler(Protocol):
    """Carries out one command. HmemError if it cannot be done now."""

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        """`text`: what follows the name; `now` in POSIX seconds."""
        ...


def read_command(message: str) -> ChatCommand | None:
    """The command that a message could be; None for any other message."""
    found = _COMMAND.match(message.strip())
    return ChatCommand(found["name"].lower(), (found["text"] or "").strip()) if found else None
