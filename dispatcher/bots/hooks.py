"""What features add to the Telegram bot, and the last hook to `hmem talk` (shared/hooks.py). How to add another front end: CONTRIBUTING.md. Which
chats the bot answers: dispatcher/queue/admission.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING

from shared.hooks import specification

if TYPE_CHECKING:
    from aiogram.types import CallbackQuery
    from redis.asyncio import Redis

    from dispatcher.bots.telegram.core import BotAnswer, BotCore
    from dispatcher.bots.telegram.messages import IncomingMessage


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


@specification(fails="closed")
async def pressed(press: CallbackQuery, chat: int) -> str | None:
    """A button was pressed in a chat that is answered: what is shown for a moment; None for a button that is not the feature's. Whoever made it
    has signed it for its chat and person (`Presses`), and checks that. It may be called again for a press."""


@specification(fails="closed")
def bot_background() -> Coroutine[None, None, None] | None:
    """What runs while this process is the bot, until it is cancelled."""


@specification(fails="open")
async def terminal_waits(redis: Redis, secret: str, task_id: str, ask: Callable[[str], bool | None]) -> None:
    """`hmem talk` waits for the answer to this task, and somebody looks; called several times a second. `ask`: a question, yes or no."""
