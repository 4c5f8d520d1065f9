"""Intake of updates: each is stored in Redis before it is confirmed to Telegram.

    getUpdates(offset) ─ for each: read ─ command │ question │ edit ─ one script ─ next offset
                                                                       │ the next getUpdates confirms it

After a crash in between, Telegram sends the same updates again; the marks in Redis (`hcli:mem:bot:seen:…`) make the repetition a no-op.
While Redis is not reachable the same update is tried again and again, and nothing is confirmed. An update that cannot be read or that causes an
error is logged and skipped: it would block all others.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import structlog
from aiogram.types import CallbackQuery, Message, User

from dispatcher.bots.hooks import stranger_wrote
from dispatcher.bots.telegram.chat_marks import ChatMarks
from dispatcher.bots.telegram.client import Telegram, TelegramError, WebhookSet
from dispatcher.bots.telegram.commands import answers as commands
from dispatcher.bots.telegram.commands.answers import Commands, task_of
from dispatcher.bots.telegram.commands.bot_answer import BotAnswer
from dispatcher.bots.telegram.incoming.arrivals import Arrivals
from dispatcher.bots.telegram.incoming.arriving import Arriving, named
from dispatcher.bots.telegram.incoming.media_kinds import FileToFetch, file_of
from dispatcher.bots.telegram.incoming.plain_words import words_of
from dispatcher.bots.telegram.incoming.pressed import Pressed
from dispatcher.bots.telegram.incoming.updates import IncomingMessage, read_message
from dispatcher.bots.telegram.outgoing.rendering import MessagePart
from dispatcher.bots.telegram.retry import until_redis_answers, until_telegram_answers
from dispatcher.bots.telegram.state import BotState, digest
from dispatcher.bots.telegram.waiting import Mark, Waiting
from dispatcher.queue.admission import AllowedChats
from dispatcher.queue.chat_commands import dispatcher_commands
from shared.config.settings import Settings
from shared.hooks import Hooks
from shared.system.faults import crash_point
from shared.text.translations import noted_language, speaking, tr
from shared.turns.records import dumps, loads_object
from shared.turns.signed.results import keyboard_json
from shared.wire import keys

log = structlog.get_logger()


class Intake:
    """`arrived` is called after each update that may have left something to deliver."""

    def __init__(
        self,
        settings: Settings,
        telegram: Telegram,
        state: BotState,
        marks: ChatMarks,
        commands: Commands,
        pressed: Pressed,
        arrivals: Arrivals,
        me: User,
        arrived: Callable[[], None],
        allowed: AllowedChats,
        hooks: Hooks,
    ) -> None:
        self._task_bytes = settings.task_bytes
        self._allowed, self._telegram, self._state, self._commands = allowed, telegram, state, commands
        self._hooks = hooks
        self._marks, self._pressed, self._arrivals, self._me, self._arrived = marks, pressed, arrivals, me, arrived
        self._strangers: set[int] = set()  # groups that were logged
        self._captioned: set[str] = set()  # albums whose caption came in the same batch of updates

    async def run(self) -> None:
        """Runs until cancelled, which may happen at any moment."""
        offset: int | None = None
        while True:
            asked = offset
            updates = await until_telegram_answers(lambda: self._updates(asked))  # noqa: B023 - awaited immediately
            crash_point("telegram:updates-received")
            self._captioned = _captioned(updates)
            for update in updates:
                number = update.get("update_id")
                if not isinstance(number, int):
                    continue
                await self._take(number, update)
                crash_point("telegram:update-taken")
                offset = number + 1
                self._arrived()

    async def _updates(self, offset: int | None) -> list[dict[str, Any]]:
        try:
            return await self._telegram.updates(offset)
        except WebhookSet:
            log.warning("a webhook is set, so Telegram hands out no updates; it is deleted")
            await self._telegram.delete_webhook()
            return await self._telegram.updates(offset)

    async def _take(self, number: int, update: dict[str, Any]) -> None:
        try:
            async with self._pressed.answered_in_time(update):
                await until_redis_answers(lambda: self.handle(number, update))
        except Exception as error:  # noqa: BLE001 - an update that stops us would stop everyone
            log.error("an update could not be processed and is skipped", update=number, error=_where(error))

    async def handle(self, number: int, update: dict[str, Any]) -> None:
        """One update; may be repeated."""
        task_id = f"tg-{self._me.id}-{number}"
        if await self._state.updates.taken(task_id):
            return
        if (press := update.get("callback_query")) is not None:
            await self._pressed.handle(task_id, CallbackQuery.model_validate(press))
        elif (raw := update.get("message")) is not None:
            await self._message(task_id, raw, edited=False)
        elif (raw := update.get("edited_message")) is not None:
            await self._message(task_id, raw, edited=True)

    async def _message(self, task_id: str, raw: dict[str, Any], *, edited: bool) -> None:
        message = Message.model_validate(raw)
        if not await self._allowed.has(message.chat.id):
            if not await self._known_to_a_feature(task_id, message, edited):
                await self._refuse_stranger(message, edited)
            return
        incoming = read_message(message, self._me) or await self._of_album(message)
        if incoming is None:
            return
        with speaking(await self._state.chats.language(str(incoming.chat)) or incoming.language):
            await self._read(task_id, message, incoming, edited=edited)

    async def _read(self, task_id: str, message: Message, incoming: IncomingMessage, *, edited: bool) -> None:
        if edited and words_of(message) is not None:  # a live location moves on and on
            return
        if edited:
            await self._edit(task_id, incoming)
        elif incoming.kind != "command" and (file := file_of(message)):
            await self._with_file(task_id, incoming, file)
        elif incoming.kind == "unreadable":
            await self._cannot_read(task_id, incoming)
        elif incoming.kind == "command":
            await self._command(task_id, incoming)
        elif incoming.text:
            await self._question(task_id, incoming, await self._meant(incoming))
        else:
            await self._say(task_id, incoming, tr(commands.EMPTY))

    async def _of_album(self, message: Message) -> IncomingMessage | None:
        """A picture that nobody addressed to the bot by itself, of an album that somebody did."""
        album = message.media_group_id
        if album is None or not await self._arrivals.has_album(message.chat.id, album):
            return None
        return read_message(message, self._me, belongs=True)

    async def _with_file(self, task_id: str, incoming: IncomingMessage, file: FileToFetch) -> None:
        """Its file is fetched later, so that nobody waits for that but this chat."""
        await self._arrive(task_id, incoming, incoming.text, (file,))

    async def _arrive(
        self, task_id: str, incoming: IncomingMessage, text: str, files: tuple[FileToFetch, ...] = ()
    ) -> None:
        record = _record(incoming)
        task = named(await self._task(task_id, incoming, text), files)
        arriving = Arriving(
            int(task_id.rpartition("-")[2]), record.chat, time.time(), incoming.label, task,
            loads_object(record.to_json()), files, incoming.album,
        )  # fmt: skip
        if not await self._arrivals.store(task_id, arriving):
            await self._say(task_id, incoming, tr(commands.BUSY))
        crash_point("telegram:after-intake")

    async def _known_to_a_feature(self, task_id: str, message: Message, edited: bool) -> bool:
        """Whether a feature has taken it, such as an invitation's code."""
        incoming = None if edited or message.forward_origin is not None else read_message(message, self._me)
        if incoming is None:
            return False
        with speaking(incoming.language):
            said = await self._hooks.ask_async(stranger_wrote, update=task_id, incoming=incoming)
            for one in filter(None, said):
                await self._say(task_id, incoming, one)
        return bool(said)

    async def _refuse_stranger(self, message: Message, edited: bool) -> None:
        chat = message.chat.id
        if message.chat.type != "private":
            if chat not in self._strangers:
                self._strangers.add(chat)
                log.warning("a chat that is not in ALLOWED_CHATS is not answered", chat=chat, type=message.chat.type)
            return
        if edited or (message.from_user and message.from_user.is_bot):
            return
        with speaking(message.from_user.language_code if message.from_user else None):
            record = Waiting(str(chat), time.time(), text=commands.stranger(chat))
        if await self._state.updates.tell(
            f"stranger-{chat}", record, keys.bot_told(str(chat)), keys.BOT_TOLD_TTL_SECONDS
        ):
            log.warning("a stranger was refused: ALLOWED_CHATS does not contain this chat", chat=chat)

    async def _command(self, task_id: str, incoming: IncomingMessage) -> None:
        if incoming.command in dispatcher_commands():
            await self._question(task_id, incoming, f"/{incoming.command} {incoming.text}".strip())
            return
        answer = await self._commands.answer(incoming)
        if answer is None and incoming.private:
            answer = BotAnswer(tr(commands.UNKNOWN))
        if answer is not None and answer.secret:
            await self._say_at_once(task_id, incoming, answer.text)
        elif answer is not None:
            record = _record(incoming, answer.text)
            await self._state.updates.say(task_id, replace(record, buttons=keyboard_json(answer.buttons) or None))

    async def _say_at_once(self, task_id: str, incoming: IncomingMessage, text: str) -> None:
        """Once at most: a code that did not arrive expires, and the owner asks for another one."""
        await self._state.updates.mark(keys.bot_seen(task_id), keys.BOT_SEEN_TTL_SECONDS)
        try:
            await self._telegram.send(incoming.chat, MessagePart(text), thread=incoming.thread)
        except TelegramError as error:
            log.error("an invitation could not be sent", chat=incoming.chat, error=str(error))

    async def _meant(self, incoming: IncomingMessage) -> str:
        """The text; of a reply to a message that asks for a text, the command that it completes."""
        if incoming.replied is None or incoming.kind != "text" or incoming.origin.forward:
            return incoming.text
        command = await self._marks.reply_command(incoming.chat, incoming.replied, incoming.own_id or "")
        return f"{command} {incoming.text}" if command else incoming.text

    async def _question(self, task_id: str, incoming: IncomingMessage, text: str) -> None:
        record = replace(_record(incoming), command=_answered_at_once(text))
        task = dumps(await self._task(task_id, incoming, text))
        if len(task) > self._task_bytes:
            await self._say(task_id, incoming, tr(commands.TOO_LONG))
            return
        if await self._arrivals.waits(incoming.chat):
            await self._arrive(task_id, incoming, text)
            return
        if incoming.album is not None:  # its other pictures belong to this caption
            await self._state.updates.mark(_album(incoming), keys.BOT_SEEN_TTL_SECONDS)
        mark = Mark(task_id, digest(text))
        refusal = Waiting(record.chat, record.at, incoming.thread, incoming.message, text=tr(commands.BUSY))
        taken = await self._state.updates.take(task_id, record, task, incoming.label, mark, refusal)
        log.info(
            "a message was received",
            task=task_id,
            chat=incoming.chat,
            outcome={1: "queued", -1: "refused"}.get(taken, "known"),
        )
        crash_point("telegram:after-intake")

    async def _task(self, task_id: str, incoming: IncomingMessage, text: str) -> dict[str, Any]:
        task = task_of(incoming, task_id, text, await self._state.chats.model(str(incoming.chat)))
        mark = await self._state.updates.mark_of(incoming.corrects) if incoming.corrects else None
        return task | {"corrects": mark.task} if mark and mark.user in (None, incoming.own_id) else task

    async def _cannot_read(self, task_id: str, incoming: IncomingMessage) -> None:
        if incoming.album is None:
            await self._say(task_id, incoming, tr(commands.ONLY_TEXT))
        elif incoming.captioned or incoming.album not in self._captioned:  # each of its pictures comes as a message
            record = _record(incoming, tr(commands.ONLY_TEXT))
            await self._state.updates.tell(task_id, record, _album(incoming), keys.BOT_SEEN_TTL_SECONDS)

    async def _edit(self, task_id: str, incoming: IncomingMessage) -> None:
        mark = await self._state.updates.mark_of(incoming.label)
        text = f"/{incoming.command} {incoming.text}".strip() if incoming.kind == "command" else ""
        text = text or await self._meant(incoming)
        if text and await self._arrivals.edit(task_id, incoming.label, text):
            return
        if mark is None or not text or digest(text) == mark.digest:
            return
        notice = Waiting(str(incoming.chat), time.time(), incoming.thread, incoming.message, text=tr(commands.EDITED))
        outcome = await self._state.updates.edited(task_id, incoming.label, mark, text, incoming.user, notice)
        log.info("a message was edited", task=mark.task, outcome=("too late", "replaced", "too late")[outcome])

    async def _say(self, task_id: str, incoming: IncomingMessage, text: str) -> None:
        await self._state.updates.say(task_id, _record(incoming, text))


def _answered_at_once(text: str) -> bool | None:
    """Whether it is a command of the dispatcher that does not ask Claude."""
    name = text.split(maxsplit=1)[0]
    return (name.startswith("/") and name[1:] in dispatcher_commands() and name != "/retry") or None


def _album(incoming: IncomingMessage) -> str:
    """The mark of an album that was answered, or whose caption was taken."""
    return keys.bot_seen(f"album-{incoming.chat}-{incoming.album}")


def _captioned(updates: list[dict[str, Any]]) -> set[str]:
    """Albums of which one of these messages has the caption: other pictures may come before it."""
    messages = [one for update in updates if isinstance(one := update.get("message"), dict) and one.get("caption")]
    return {album for one in messages if isinstance(album := one.get("media_group_id"), str)}


def _where(error: Exception) -> str:
    """What went wrong and where, without the values, which come from people's messages."""
    frames = traceback.extract_tb(error.__traceback__)
    return (
        f"{type(error).__name__} in line {frames[-1].lineno} of {frames[-1].filename}" if frames else repr(type(error))
    )


def _record(incoming: IncomingMessage, text: str | None = None) -> Waiting:
    reply_to = None if incoming.private else incoming.message
    return Waiting(
        str(incoming.chat),
        time.time(),
        incoming.thread,
        reply_to,
        text=text,
        user=incoming.own_id,
        language=noted_language(),
    )
