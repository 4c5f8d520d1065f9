"""Updates: each is stored in Redis before it is confirmed to Telegram.

    getUpdates(offset) ─ for each: aiogram's dispatcher ─ one script ─ next offset
                                                            │ the next getUpdates confirms it

    message, edited message ─ hear: admitted? addressed? ┐
    press ─ carry out: made for this person?             ┴─ edit │ file │ unreadable │ command │ question

Filters lead to a handler, which returns the reply. A press is the command of its button, as if its person had written it.

After a crash in between, Telegram sends the same updates again; the marks in Redis (`hcli:mem:bot:seen:…`) make the repetition a no-op, and
every handler may be called again. While Redis is not reachable the same update is tried again and again, and nothing is confirmed. An update that
cannot be read or that causes an error is logged and skipped: it would block all others. aiogram's own polling does not hold to that: it confirms what
it has handed to its handlers, although they failed, and gives up the whole batch because of an update that it cannot read. So the loop is ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, cast

from aiogram import Bot, Dispatcher, F
from aiogram.exceptions import TelegramAPIError
from aiogram.filters import MagicData
from aiogram.types import CallbackQuery, Message, TelegramObject, Update

from dispatcher.bots.hooks import pressed, stranger_wrote
from dispatcher.bots.telegram import commands
from dispatcher.bots.telegram.arrivals import Arrivals, Arriving, named
from dispatcher.bots.telegram.client import POLL_SECONDS, until_redis_answers, until_telegram_answers
from dispatcher.bots.telegram.commands import Commands
from dispatcher.bots.telegram.contents import FileToFetch, file_of, words_of
from dispatcher.bots.telegram.core import BotAnswer, BotCore
from dispatcher.bots.telegram.messages import IncomingMessage, read_message, read_press
from dispatcher.bots.telegram.rendering import MessagePart
from dispatcher.bots.telegram.state import Mark, Waiting, digest
from dispatcher.queue.chat_commands import EDITED_TOO_LATE, dispatcher_commands
from shared.hooks import Hooks
from shared.system.faults import crash_point
from shared.text.format import cut
from shared.text.logs import Logger
from shared.text.translations import later, noted_language, speaking, tr
from shared.turns.records import MODELS, dumps
from shared.wire import keys

log = Logger()

#: Seconds after which a press is answered without a text, whatever Redis does: Telegram shows a waiting sign until then, and forgets the press soon.
ANSWER_SECONDS = 2.0
#: The longest text that is shown for a moment.
TOAST_CHARACTERS = 200

NOT_YOURS = later("This button is for somebody else, or no longer valid.")
NOT_NOW = later("Too many messages are waiting for an answer. Please press the button again later.")
EXPIRED = later("This button has expired. Send the command again.")
ALREADY = later("I am already doing this.")

#: What a handler returns: the reply, or None for none.
Answer = BotAnswer | str | None
Handler = Callable[[TelegramObject, dict[str, Any]], Awaitable[Any]]


class Intake:
    """`arrived` is called after each update that may have left something to deliver."""

    def __init__(self, core: BotCore, hooks: Hooks, arrivals: Arrivals, arrived: Callable[[], None]) -> None:
        self._core, self._arrivals, self._arrived = core, arrivals, arrived
        self._routes = Routes(core, hooks, arrivals)

    async def run(self) -> None:
        """Runs until cancelled, which may happen at any moment."""
        offset, seconds = None, 0
        while True:
            asked = offset, seconds
            updates = await until_telegram_answers(lambda: self._core.telegram.updates(*asked))  # noqa: B023 - awaited immediately
            crash_point("telegram:updates-received")
            for update in updates:
                number = update.get("update_id")
                if not isinstance(number, int):
                    continue
                await self._take(number, update)
                crash_point("telegram:update-taken")
                offset = number + 1
                self._arrived()
            seconds = POLL_SECONDS
            self._arrivals.begun.set()  # the rest of an album that was there before a crash has come

    async def _take(self, number: int, raw: dict[str, Any]) -> None:
        bot = self._core.telegram.bot
        try:
            async with answered_in_time(bot, raw.get("callback_query")) as answer_press:
                await self._follow(raw.get("message"))
                update = Update.model_validate(self._core.as_stored(raw), context={"bot": bot})
                await until_redis_answers(lambda: self._feed(f"tg-{self._core.me.id}-{number}", update, answer_press))
        except Exception as error:  # noqa: BLE001 - an update that stops us would stop everyone
            log.error("an update could not be processed and is skipped", update=number, error=_where(error))

    async def _follow(self, message: Any) -> None:
        """A group that becomes a supergroup says so, and so does the supergroup."""
        said = message if isinstance(message, dict) else {}
        here, to, was = said.get("chat", {}).get("id"), said.get("migrate_to_chat_id"), said.get("migrate_from_chat_id")
        if to or was:
            await until_redis_answers(lambda: self._core.move(was or here, to or here))

    async def _feed(self, task_id: str, update: Update, answer_press: Callable[[str], Awaitable[None]]) -> None:
        """One update; may be repeated."""
        if not await self._core.state.updates.taken(task_id):
            bot = self._core.telegram.bot
            await self._routes.feed_update(bot, update, task_id=task_id, answer_press=answer_press)


@contextlib.asynccontextmanager
async def answered_in_time(bot: Bot, press: object) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """What ends the waiting sign of a press: in time, and once. Anything but a press has none."""
    press_id = press.get("id") if isinstance(press, dict) else None
    left = [press_id] if isinstance(press_id, str) else []

    async def answer(text: str = "", seconds: float = 0.0) -> None:
        await asyncio.sleep(seconds)
        with contextlib.suppress(TelegramAPIError):  # Telegram forgets a press after a while
            if left:
                await bot.answer_callback_query(left.pop(), cut(text, TOAST_CHARACTERS) or None)

    timer = asyncio.create_task(answer(seconds=ANSWER_SECONDS))
    try:
        yield answer
        await answer()
    finally:
        timer.cancel()


def _where(error: Exception) -> str:
    """What went wrong and where, without the values, which come from people's messages."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in line {frames[-1].lineno} of {frames[-1].filename}"


class Routes(Dispatcher):
    """One per bot. An update comes with `task_id`, and with `answer_press`, which shows a text for a moment."""

    def __init__(self, core: BotCore, hooks: Hooks, arrivals: Arrivals) -> None:
        super().__init__(disable_fsm=True)
        self._core, self._state, self._hooks, self._arrivals = core, core.state, hooks, arrivals
        known = Commands(core, hooks)
        self._strangers = set[int]()  # groups that were logged
        self.message.outer_middleware(self._hear)
        self.edited_message.outer_middleware(self._hear)
        self.callback_query.outer_middleware(self._carry_out)
        self.edited_message.register(self._edit)
        self.message.register(self._fetch, _file)
        self.message.register(_said(commands.ONLY_TEXT), MagicData(F.incoming.unreadable))
        for observer in (self.message, self.callback_query):
            observer.register(self._ask, MagicData(F.incoming.command.in_(dispatcher_commands())))
            observer.register(known.answer, MagicData(F.incoming.command.in_(known.names)))
        self.message.register(_unknown, MagicData(F.incoming.command))
        self.message.register(self._ask, MagicData(F.incoming.text))
        self.message.register(_said(commands.EMPTY))

    # Who may, and who is meant.

    async def _hear(self, handler: Handler, event: TelegramObject, data: dict[str, Any]) -> None:
        """A message, or an edited one."""
        message = cast(Message, event)
        task_id, edited = data["task_id"], data["event_update"].edited_message is not None
        if not await self._core.allows(message.chat.id):
            if edited or message.forward_origin is not None or not await self._taken_by_feature(message, task_id):
                await self._refuse_stranger(message, edited=edited)
            return
        incoming = read_message(message, self._core.me, task_id) or await self._further_part(message, task_id)
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
        if message is None or not await self._core.allows(message.chat.id):
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
        return read_press(press, message, command, self._core.me, task_id) or tr(NOT_YOURS)

    async def _further_part(self, message: Message, task_id: str) -> IncomingMessage | None:
        """What nobody addressed to the bot by itself, of an album or a long text whose first part somebody did."""
        incoming = read_message(message, self._core.me, task_id, belongs=True)
        arriving = (await self._arrivals.of_chat(str(message.chat.id))).values() if incoming else ()
        belongs = incoming and any(
            one.goes_on_with(incoming.album or incoming.paste, incoming.sent) for _, one in arriving
        )
        return incoming if belongs else None

    async def _taken_by_feature(self, message: Message, task_id: str) -> bool:
        """Whether a feature knows this stranger, or what they sent, such as the code of an invitation."""
        incoming = read_message(message, self._core.me, task_id)
        if incoming is None:
            return False
        with speaking(incoming.language):
            said = await self._hooks.ask_async(stranger_wrote, update=task_id, incoming=incoming)
            for one in said:
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
            record = Waiting(str(chat), time.time(), text=commands.stranger(chat))
        mark = keys.bot_told(str(chat))
        if await self._state.updates.tell(f"stranger-{chat}", record, mark, keys.BOT_TOLD_TTL_SECONDS):
            log.warning("a stranger was refused: ALLOWED_CHATS does not contain this chat", chat=chat)

    async def _say(self, incoming: IncomingMessage, answer: object) -> str:
        """What a handler returned; aiogram returns something else where there was none. Nothing is shown for a moment then."""
        if isinstance(answer, str) and answer:
            answer = BotAnswer(answer)
        if isinstance(answer, BotAnswer) and not answer.secret:
            await self._state.updates.say(incoming.task_id, incoming.delivery(answer.text, answer.buttons))
        elif isinstance(answer, BotAnswer):
            # Once at most: a code that did not arrive expires, and the owner asks for another one.
            await self._state.marks.note(incoming.task_id)
            try:
                await self._core.telegram.send(incoming.chat, MessagePart(answer.text), thread=incoming.thread)
            except TelegramAPIError as error:
                log.error("an invitation could not be sent", chat=incoming.chat, error=str(error))
        return ""

    # Handlers.

    async def _edit(self, message: Message, incoming: IncomingMessage) -> None:
        if words_of(message) is not None:  # a live location moves on and on
            return
        text = await self._meant(incoming)
        if text and await self._arrivals.edit(incoming.task_id, incoming.label, text):
            return
        mark = await self._state.marks.of_message(incoming.label)
        if mark is None or not text or digest(text) == mark.digest:
            return
        updates, update = self._state.updates, incoming.task_id
        if await updates.edited(update, incoming.label, mark, text, incoming.user):
            log.info("a message was edited while it waits", task=mark.task)
        elif mark.end:
            await updates.say(update, incoming.notice(tr(EDITED_TOO_LATE)))
        else:  # the dispatcher corrects what is remembered of it
            task = await self._task(incoming, text) | {"corrects": mark.task, "edited": True}
            delivery, changed = replace(incoming.notice(""), text=None, command=True), Mark(mark.task, digest(text))
            busy = incoming.notice(tr(commands.BUSY))
            await updates.take(update, delivery, dumps(task), incoming.label, changed, busy)
            log.info("a message was edited that was taken before", task=mark.task)

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
        if incoming.cut or await self._arrivals.of_chat(delivery.chat):
            return await self._arrive(incoming, task, delivery)
        mark = Mark(incoming.task_id, digest(text))
        refusal = None if incoming.pressed else incoming.notice(tr(commands.BUSY))
        taken = await self._state.updates.take(incoming.task_id, delivery, dumps(task), incoming.label, mark, refusal)
        outcome = {1: "queued", -1: "refused"}.get(taken, "known")
        log.info("a message was received", task=incoming.task_id, chat=incoming.chat, outcome=outcome)
        crash_point("telegram:after-intake")
        return _busy(incoming) if incoming.pressed and taken < 0 else None  # else the refusal says it

    async def _arrive(
        self, incoming: IncomingMessage, task: dict[str, Any], delivery: Waiting, files: tuple[FileToFetch, ...] = ()
    ) -> Answer:
        """Behind what is still arriving of this chat, or as a part of it."""
        order, record = int(incoming.task_id.rpartition("-")[2]), delivery.content()
        task = named(task, files)
        arriving = Arriving(
            order, delivery.chat, time.time(), incoming.label, task, record, files,
            incoming.album if files else incoming.paste, incoming.sent, incoming.cut,
        )  # fmt: skip
        stored = await self._arrivals.store(incoming.task_id, arriving)
        crash_point("telegram:after-intake")
        return None if stored else _busy(incoming)

    async def _meant(self, incoming: IncomingMessage) -> str:
        """The text; of a reply to a message that asks for a text, the command that it completes."""
        if incoming.replied is None or incoming.command or incoming.unreadable or incoming.origin.forward:
            return incoming.spoken
        command = await self._state.marks.reply_command(incoming.chat, incoming.replied, incoming.own_id or "")
        return f"{command} {incoming.text}".strip()

    async def _task(self, incoming: IncomingMessage, text: str) -> dict[str, Any]:
        """As the wire contract defines it."""
        model = await self._state.chats.chosen(str(incoming.chat), "model")
        mark = await self._state.marks.of_message(incoming.corrects) if incoming.corrects else None
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
            "corrects": mark.task if mark else None,
        }
        return {name: value for name, value in task.items() if value is not None}


async def _unknown(_: Message, incoming: IncomingMessage) -> Answer:
    return None if incoming.group else tr(commands.UNKNOWN)


def _said(text: str) -> Callable[..., Awaitable[str]]:
    """A handler that says this, whatever came."""

    async def handler(_: TelegramObject) -> str:
        return tr(text)

    return handler


async def _file(message: Message, incoming: IncomingMessage) -> dict[str, FileToFetch] | bool:
    """Whether a file came with it."""
    file = None if incoming.command else file_of(message)
    return {"file": file} if file else False


def _busy(incoming: IncomingMessage) -> Answer:
    return BotAnswer(tr(NOT_NOW), brief=True) if incoming.pressed else tr(commands.BUSY)
