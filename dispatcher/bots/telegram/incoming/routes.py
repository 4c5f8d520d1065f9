"""What becomes of an update, by aiogram's dispatcher: filters lead to a handler, and what that returns is said in reply.

    message, edited message ─ hear: admitted? addressed? ┐
    press ─ carry out: made for this person?             ┴─ edit │ file │ unreadable │ command │ question

A press is the command of its button, as if its person had written it. Every handler may be called again for an update.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

import structlog
from aiogram import Dispatcher, F
from aiogram.filters import MagicData
from aiogram.types import CallbackQuery, Message, TelegramObject

from dispatcher.bots.hooks import pressed, stranger_wrote
from dispatcher.bots.telegram.commands import answers
from dispatcher.bots.telegram.commands.answers import Commands
from dispatcher.bots.telegram.core import BotAnswer, BotCore
from dispatcher.bots.telegram.errors import TelegramError
from dispatcher.bots.telegram.incoming.arrivals import Arrivals, Arriving, named
from dispatcher.bots.telegram.incoming.media_kinds import FileToFetch, file_of
from dispatcher.bots.telegram.incoming.plain_words import words_of
from dispatcher.bots.telegram.incoming.updates import IncomingMessage, read_message, read_press
from dispatcher.bots.telegram.outgoing.rendering import MessagePart
from dispatcher.bots.telegram.state import digest
from dispatcher.bots.telegram.waiting import Mark, Waiting
from dispatcher.queue.chat_commands import dispatcher_commands
from shared.hooks import Hooks
from shared.system.faults import crash_point
from shared.text.translations import later, noted_language, speaking, tr
from shared.turns.records import MODELS, dumps, loads_object
from shared.wire import keys

log = structlog.get_logger()

NOT_YOURS = later("This button is for somebody else, or no longer valid.")
NOT_NOW = later("Too many messages are waiting for an answer. Please press the button again later.")
EXPIRED = later("This button has expired. Send the command again.")
ALREADY = later("I am already doing this.")

#: What a handler returns: what is said, None for nothing.
Answer = BotAnswer | str | None
Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]


class Routes(Dispatcher):
    """One per bot. An update comes with `task_id`, with `captioned`, the albums whose caption came with it, and with `answer_press`."""

    def __init__(self, core: BotCore, hooks: Hooks, arrivals: Arrivals) -> None:
        super().__init__(disable_fsm=True)
        self._core, self._state, self._hooks, self._arrivals = core, core.state, hooks, arrivals
        self._commands = commands = Commands(core, hooks)
        self._strangers = set[int]()  # groups that were logged
        self.message.outer_middleware(self._hear)
        self.edited_message.outer_middleware(self._hear)
        self.callback_query.outer_middleware(self._carry_out)
        self.edited_message.register(self._edit)
        self.message.register(self._fetch, _file)
        self.message.register(self._cannot_read, MagicData(F.incoming.kind == "unreadable"))
        for observer in (self.message, self.callback_query):
            observer.register(self._ask, MagicData(F.incoming.command.in_(dispatcher_commands())))
            observer.register(self._answer_command, MagicData(F.incoming.command.in_(commands.names)))
        self.message.register(_unknown, MagicData(F.incoming.command))
        self.message.register(self._ask, MagicData(F.incoming.text))
        self.message.register(_empty)

    # Who may, and who is meant.

    async def _hear(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> None:
        """A message, or an edited one."""
        message = cast(Message, event)
        task_id, edited = data["task_id"], data["event_update"].edited_message is not None
        if not await self._core.allowed.has(message.chat.id):
            if edited or message.forward_origin is not None or not await self._taken_by_feature(message, task_id):
                await self._refuse_stranger(message, edited=edited)
            return
        incoming = read_message(message, self._core.me, task_id) or await self._of_album(message, task_id)
        if incoming is None:
            return
        with speaking(await self._state.chats.language(str(incoming.chat)) or incoming.language):
            await self._say(incoming, await handler(message, data | {"incoming": incoming}))

    async def _carry_out(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> None:
        """A press: its answer replaces the message with the button, is a message of its own, or is shown for a moment."""
        press = cast(CallbackQuery, event)
        chosen = await self._state.chats.language(str(press.message.chat.id)) if press.message else None
        with speaking(chosen or press.from_user.language_code):
            made = await self._pressed(data["task_id"], press)
            if isinstance(made, IncomingMessage):
                answer = await handler(press, data | {"incoming": made})
                made = answer.text if isinstance(answer, BotAnswer) and answer.brief else await self._say(made, answer)
            await data["answer_press"](made)

    async def _pressed(self, task_id: str, press: CallbackQuery) -> IncomingMessage | str:
        """The command of a press, or what is shown instead of its answer."""
        message, person = press.message, str(press.from_user.id)
        if message is None or not await self._core.allowed.has(message.chat.id):
            return tr(NOT_YOURS)
        if told := await self._hooks.ask_async(pressed, press=press, chat=message.chat.id):
            return told[0]
        command = self._core.presses.command(press.data or "", message.chat.id, person)
        if not command:
            log.warning("a press was refused", chat=message.chat.id, expired=command == "")
            return tr(NOT_YOURS) if command is None else tr(EXPIRED)
        if not await self._state.marks.first_press(task_id, message.chat.id, message.message_id, press.data or ""):
            return tr(ALREADY)
        crash_point("telegram:press-marked")
        return read_press(press, message, command, task_id)

    async def _of_album(self, message: Message, task_id: str) -> IncomingMessage | None:
        """A picture that nobody addressed to the bot by itself, of an album that somebody did."""
        album = message.media_group_id
        if album is None or not await self._arrivals.has_album(message.chat.id, album):
            return None
        return read_message(message, self._core.me, task_id, belongs=True)

    async def _taken_by_feature(self, message: Message, task_id: str) -> bool:
        """Whether a feature knows this stranger, or what they sent, such as the code of an invitation."""
        incoming = read_message(message, self._core.me, task_id)
        if incoming is None:
            return False
        with speaking(incoming.language):
            said = await self._hooks.ask_async(stranger_wrote, update=task_id, incoming=incoming)
            for one in filter(None, said):
                await self._say(incoming, one)
        return bool(said)

    async def _refuse_stranger(self, message: Message, *, edited: bool) -> None:
        chat, sender = message.chat.id, message.from_user
        if message.chat.type != "private":
            if chat not in self._strangers:
                self._strangers.add(chat)
                log.warning("a chat that is not in ALLOWED_CHATS is not answered", chat=chat, type=message.chat.type)
            return
        if edited or (sender and sender.is_bot):
            return
        with speaking(sender.language_code if sender else None):
            record = Waiting(str(chat), time.time(), text=answers.stranger(chat))
        mark = keys.bot_told(str(chat))
        if await self._state.updates.tell(f"stranger-{chat}", record, mark, keys.BOT_TOLD_TTL_SECONDS):
            log.warning("a stranger was refused: ALLOWED_CHATS does not contain this chat", chat=chat)

    async def _say(self, incoming: IncomingMessage, answer: object) -> str:
        """What a handler returned; aiogram returns something else where there was none."""
        if isinstance(answer, str):
            answer = BotAnswer(answer)
        if not isinstance(answer, BotAnswer):
            return ""
        if not answer.secret:
            await self._state.updates.say(incoming.task_id, incoming.delivery(answer.text, answer.buttons))
            return ""
        # Once at most: a code that did not arrive expires, and the owner asks for another one.
        await self._state.marks.note(incoming.task_id)
        try:
            await self._core.telegram.send(incoming.chat, MessagePart(answer.text), thread=incoming.thread)
        except TelegramError as error:
            log.error("an invitation could not be sent", chat=incoming.chat, error=str(error))
        return ""

    # Handlers.

    async def _answer_command(self, _: TelegramObject, incoming: IncomingMessage) -> Answer:
        return await self._commands.answer(incoming)

    async def _cannot_read(self, _: Message, incoming: IncomingMessage, captioned: set[str]) -> Answer:
        if incoming.album is None:
            return tr(answers.ONLY_TEXT)
        if incoming.captioned or incoming.album not in captioned:  # each of its pictures comes as a message
            record, mark = incoming.delivery(tr(answers.ONLY_TEXT)), keys.bot_seen(_album(incoming))
            await self._state.updates.tell(incoming.task_id, record, mark, keys.BOT_SEEN_TTL_SECONDS)
        return None

    async def _edit(self, message: Message, incoming: IncomingMessage) -> None:
        if words_of(message) is not None:  # a live location moves on and on
            return
        text = await self._meant(incoming)
        if text and await self._arrivals.edit(incoming.task_id, incoming.label, text):
            return
        mark = await self._state.marks.of_message(incoming.label)
        if mark is None or not text or digest(text) == mark.digest:
            return
        notice = incoming.notice(tr(answers.EDITED))
        outcome = await self._state.updates.edited(incoming.task_id, incoming.label, mark, text, incoming.user, notice)
        log.info("a message was edited", task=mark.task, outcome=("too late", "replaced", "too late")[outcome])

    async def _fetch(self, _: Message, incoming: IncomingMessage, file: FileToFetch) -> Answer:
        """Its file is fetched later, so that nobody waits for that but this chat."""
        task, delivery = await self._task(incoming, incoming.text), incoming.delivery()
        return await self._arrive(incoming, task, delivery, (file,))

    async def _ask(self, _: TelegramObject, incoming: IncomingMessage) -> Answer:
        """Of Claude, or of the dispatcher."""
        text = await self._meant(incoming)
        task, delivery = await self._task(incoming, text), incoming.delivery()
        name = text.split(maxsplit=1)[0]
        if name.startswith("/") and name != "/retry" and name[1:] in dispatcher_commands():  # answered at once
            delivery = replace(delivery, command=True)
        raw = dumps(task)
        if await self._arrivals.waits(incoming.chat):
            return await self._arrive(incoming, task, delivery)
        if incoming.album is not None:  # its other pictures belong to this caption
            await self._state.marks.note(_album(incoming))
        mark = Mark(incoming.task_id, digest(text))
        refusal = None if incoming.pressed else incoming.notice(tr(answers.BUSY))
        taken = await self._state.updates.take(incoming.task_id, delivery, raw, incoming.label, mark, refusal)
        outcome = {1: "queued", -1: "refused"}.get(taken, "known")
        log.info("a message was received", task=incoming.task_id, chat=incoming.chat, outcome=outcome)
        crash_point("telegram:after-intake")
        return _busy(incoming) if incoming.pressed and taken < 0 else None  # else the refusal says it

    async def _arrive(
        self, incoming: IncomingMessage, task: dict[str, Any], delivery: Waiting, files: tuple[FileToFetch, ...] = ()
    ) -> Answer:
        """Behind the files of this chat that are being fetched."""
        order, record = int(incoming.task_id.rpartition("-")[2]), loads_object(delivery.to_json())
        task = named(task, files)
        arriving = Arriving(order, delivery.chat, time.time(), incoming.label, task, record, files, incoming.album)
        stored = await self._arrivals.store(incoming.task_id, arriving)
        crash_point("telegram:after-intake")
        return None if stored else _busy(incoming)

    async def _meant(self, incoming: IncomingMessage) -> str:
        """The text; of a reply to a message that asks for a text, the command that it completes."""
        if incoming.replied is None or incoming.kind != "text" or incoming.origin.forward:
            return incoming.spoken
        command = await self._state.marks.reply_command(incoming.chat, incoming.replied, incoming.own_id or "")
        return f"{command} {incoming.text}".strip()

    async def _task(self, incoming: IncomingMessage, text: str) -> dict[str, Any]:
        """As the wire contract defines it."""
        model = await self._state.chats.model(str(incoming.chat))
        mark = await self._state.marks.of_message(incoming.corrects) if incoming.corrects else None
        corrects = mark.task if mark and mark.user in (None, incoming.own_id) else None
        task = {
            "task_id": incoming.task_id,
            "message": text,
            "chat_id": incoming.chat,
            "user_id": incoming.user,
            "submitted_at": incoming.said_at,
            "model": model if model in MODELS else None,
            "name": incoming.name or None,
            "language": noted_language(),
            **incoming.origin.to_json(),
            "corrects": corrects,
        }
        return {name: value for name, value in task.items() if value is not None}


async def _file(message: Message, incoming: IncomingMessage) -> dict[str, FileToFetch] | bool:
    """Whether a file came with it."""
    file = file_of(message) if incoming.kind != "command" else None
    return {"file": file} if file else False


def _busy(incoming: IncomingMessage) -> Answer:
    return BotAnswer(tr(NOT_NOW), brief=True) if incoming.pressed else tr(answers.BUSY)


async def _unknown(_: Message, incoming: IncomingMessage) -> Answer:
    return tr(answers.UNKNOWN) if incoming.private else None


async def _empty(_: Message) -> Answer:
    return tr(answers.EMPTY)


def _album(incoming: IncomingMessage) -> str:
    """The mark of an album that was answered, or whose caption was taken."""
    return f"album-{incoming.chat}-{incoming.album}"
