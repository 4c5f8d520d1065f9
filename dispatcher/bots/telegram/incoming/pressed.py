"""A pressed button: its command is carried out as if its person had written it, and the answer replaces the message with the button."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import structlog
from aiogram.types import CallbackQuery, Message, User

from dispatcher.bots.hooks import pressed
from dispatcher.bots.telegram.chat_marks import ChatMarks
from dispatcher.bots.telegram.client import Telegram, TelegramError
from dispatcher.bots.telegram.commands.answers import Commands, task_of
from dispatcher.bots.telegram.incoming.origins import shown_name
from dispatcher.bots.telegram.incoming.presses import Presses
from dispatcher.bots.telegram.incoming.updates import IncomingMessage
from dispatcher.bots.telegram.state import BotState, digest
from dispatcher.bots.telegram.waiting import Mark, Waiting
from dispatcher.queue.admission import AllowedChats
from dispatcher.queue.chat_commands import dispatcher_commands
from shared.hooks import Hooks
from shared.system.faults import crash_point
from shared.text.translations import language_of, later, noted_language, speaking, tr
from shared.turns.message_origin import Origin
from shared.turns.records import dumps
from shared.turns.signed.results import keyboard_json

log = structlog.get_logger()

NOT_YOURS = later("This button is for somebody else, or no longer valid.")
NOT_NOW = later("Too many messages are waiting for an answer. Please press the button again later.")
EXPIRED = later("This button has expired. Send the command again.")
ALREADY = later("I am already doing this.")
#: Seconds after which a press is answered without a text, whatever Redis does: Telegram shows a waiting sign until then, and forgets the press soon.
ANSWER_SECONDS = 2.0
#: The longest text that is shown for a moment.
TOAST_CHARACTERS = 200
#: Commands whose answer is a message of its own: the pressed message is an answer of Claude's, and stays.
APART = frozenset({"retry", "why"})


class Pressed:
    """One per bot."""

    def __init__(
        self,
        allowed: AllowedChats,
        telegram: Telegram,
        state: BotState,
        commands: Commands,
        presses: Presses,
        hooks: Hooks,
        marks: ChatMarks,
        me: User,
    ) -> None:
        self._allowed, self._telegram, self._state = allowed, telegram, state
        self._commands, self._presses, self._marks, self._me = commands, presses, marks, me
        self._hooks = hooks
        self._answered = set[str]()  # presses of the update that is being processed

    @contextlib.asynccontextmanager
    async def answered_in_time(self, update: dict[str, Any]) -> AsyncIterator[None]:
        """While the update is processed: if it is a press, it is answered in time, and once."""
        press = update.get("callback_query")
        press_id = press.get("id") if isinstance(press, dict) else None
        if not isinstance(press_id, str):
            yield
            return
        timer = asyncio.create_task(self._answer_after(ANSWER_SECONDS, press_id))
        try:
            yield
            await self._answer(press_id)
        finally:
            timer.cancel()
            self._answered.discard(press_id)

    async def handle(self, task_id: str, press: CallbackQuery) -> None:
        """One press; may be repeated."""
        chosen = await self._state.chats.language(str(press.message.chat.id)) if press.message else None
        with speaking(chosen or press.from_user.language_code):
            await self._handle(task_id, press)

    async def _handle(self, task_id: str, press: CallbackQuery) -> None:
        message, data = press.message, press.data or ""
        if message is None or not await self._allowed.has(message.chat.id):
            await self._answer(press.id, tr(NOT_YOURS))
            return
        if told := await self._hooks.ask_async(pressed, press=press, chat=message.chat.id):
            await self._answer(press.id, told[0])
            return
        command = self._presses.command(data, message.chat.id, str(press.from_user.id))
        if not command:
            log.warning("a press was refused", chat=message.chat.id, expired=command == "")
            await self._answer(press.id, tr(NOT_YOURS) if command is None else tr(EXPIRED))
            return
        if not await self._marks.first_press(task_id, message.chat.id, message.message_id, data):
            await self._answer(press.id, tr(ALREADY))
            return
        crash_point("telegram:press-marked")
        await self._answer(
            press.id, await self._carry_out(task_id, _as_message(press, message.chat.id, command), press)
        )

    async def _carry_out(self, task_id: str, incoming: IncomingMessage, press: CallbackQuery) -> str:
        """Its answer replaces the message that was pressed, or is a message of its own; returns what is shown for a moment."""
        chat, user = str(incoming.chat), incoming.own_id
        if incoming.command == "stop":
            return await self._commands.stop(incoming)
        apart = incoming.command in APART
        reply_to = incoming.message or None if apart else None
        record = Waiting(
            chat,
            time.time(),
            incoming.thread,
            reply_to,
            None if apart else incoming.message or None,
            user=user,
            command=incoming.command != "retry" or None,
            language=noted_language(),
        )
        if incoming.command not in dispatcher_commands():
            answer = await self._commands.answer(incoming)
            if answer is not None and not answer.secret:
                buttons = keyboard_json(answer.buttons) or None
                await self._state.updates.say(task_id, replace(record, text=answer.text, buttons=buttons))
            return ""
        text = f"/{incoming.command} {incoming.text}".strip()
        model = await self._state.chats.model(chat) if incoming.command == "retry" else None
        task = dumps(task_of(incoming, task_id, text, model))
        mark = Mark(task_id, digest(text))
        taken = await self._state.updates.take(task_id, record, task, f"press-{press.id}", mark, None)
        return tr(NOT_NOW) if taken < 0 else ""

    async def _answer_after(self, seconds: float, press_id: str) -> None:
        await asyncio.sleep(seconds)
        await self._answer(press_id)

    async def _answer(self, press_id: str, text: str = "") -> None:
        """End the waiting sign, once. Telegram forgets a press after a while: then there is no one to show a text to."""
        if press_id in self._answered:
            return
        self._answered.add(press_id)
        with contextlib.suppress(TelegramError):
            await self._telegram.answer_press(press_id, text[:TOAST_CHARACTERS])


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
        language=language_of(press.from_user.language_code),
    )
