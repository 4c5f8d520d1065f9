"""What features add to our Telegram bot (shared/hooks.py). Which chats it answers: dispatcher/queue/admission.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from dispatcher.bots.telegram.commands.bot_answer import BotAnswer
    from dispatcher.bots.telegram.core import BotCore
    from dispatcher.bots.telegram.incoming.updates import IncomingMessage


@specification(fails="closed")
def telegram_bot(core: BotCore) -> object | None:
    """The feature's part of the bot, made when a process becomes the bot: an object whose methods implement the hooks below."""


@specification(fails="closed")
def bot_commands() -> Mapping[str, Callable[[IncomingMessage], Awaitable[BotAnswer]]] | None:
    """Name of a command without its slash → what answers it, in the bot and without a task. Called once."""


@specification(fails="open")
def owners_help() -> str | None:
    """What an owner reads below /help."""


@specification(fails="closed")
async def stranger_wrote(update: str, incoming: IncomingMessage) -> str | None:
    """A message came from a chat that is not answered: what it is told, "" for nothing; None if this is nobody whom the feature knows.
    It may be called again for an update."""
