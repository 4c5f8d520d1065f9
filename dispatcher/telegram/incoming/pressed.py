"""A pressed button: its command is carried out as if its person had written it, and the answer replaces the message with the button."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime

import structlog
from aiogram.types import CallbackQuery, Message, User

from dispatcher.queue.command_names import DISPATCHER_COMMANDS
from dispatcher.telegram.client import Telegram, TelegramError
from dispatcher.telegram.commands.answers import Commands, task_of
from dispatcher.telegram.incoming.origins import shown_name
from dispatcher.telegram.incoming.presses import Presses
from dispatcher.telegram.incoming.updates import IncomingMessage
from dispatcher.telegram.state import BotState, Mark, Waiting, digest
from shared.config.settings import Settings
from shared.turns.message_origin import Origin
from shared.turns.records import dumps

log = structlog.get_logger()

NOT_YOURS = "This button is for somebody else, or no longer valid."
NOT_NOW = "Too many messages are waiting for an answer. Please press the button again later."
EXPIRED = "This button has expired. Send the command again."


class Pressed:
    """One per bot."""

    def __init__(
        self, settings: Settings, telegram: Telegram, state: BotState, commands: Commands, presses: Presses, me: User
    ) -> None:
        self._allowed, self._telegram, self._state = settings.allowed, telegram, state
        self._commands, self._presses, self._me = commands, presses, me

    async def handle(self, task_id: str, press: CallbackQuery) -> None:
        """One press; may be repeated."""
        message = press.message
        if message is None or message.chat.id not in self._allowed:
            await self._end(press, NOT_YOURS)
            return
        command = self._presses.command(press.data or "", message.chat.id, str(press.from_user.id))
        if not command:
            log.warning("a press was refused", chat=message.chat.id, expired=command == "")
            await self._end(press, NOT_YOURS if command is None else EXPIRED)
            return
        await self._carry_out(task_id, _as_message(press, message.chat.id, command), press)
        await self._end(press)

    async def _carry_out(self, task_id: str, incoming: IncomingMessage, press: CallbackQuery) -> None:
        """The answer replaces the message that was pressed."""
        record = Waiting(
            str(incoming.chat), time.time(), incoming.thread, placeholder=incoming.message or None, user=incoming.own_id
        )
        if incoming.command not in DISPATCHER_COMMANDS:
            answer = await self._commands.answer(incoming)
            if answer is not None:
                await self._state.say(
                    task_id, Waiting(record.chat, record.at, record.thread, text=answer, user=record.user)
                )
            return
        text = f"/{incoming.command} {incoming.text}".strip()
        task = dumps(task_of(incoming, task_id, text, None))
        refusal = Waiting(record.chat, record.at, incoming.thread, text=NOT_NOW)
        label = f"press-{press.id}"
        await self._state.take(task_id, record, task, label, Mark(task_id, digest(text)), refusal)

    async def _end(self, press: CallbackQuery, text: str = "") -> None:
        """Telegram forgets a press after a while: then there is no one to show it to."""
        with contextlib.suppress(TelegramError):
            await self._telegram.answer_press(press.id, text)


def _as_message(press: CallbackQuery, chat: int, command: str) -> IncomingMessage:
    """The command as its person would have written it."""
    name, _, text = command.removeprefix("/").partition(" ")
    message = press.message if isinstance(press.message, Message) else None
    return IncomingMessage(
        chat=chat,
        private=chat > 0,
        message=message.message_id if message else 0,
        thread=message.message_thread_id if message and message.is_topic_message else None,
        user=press.from_user.id,
        name=shown_name(press.from_user),
        said_at=datetime.now(UTC).isoformat(),
        kind="command",
        text=text,
        command=name,
        origin=Origin("private" if chat > 0 else "group"),
    )
