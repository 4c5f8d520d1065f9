"""What the bot answers by itself: /start, /help, /new, /status, /cancel, /stop, /model, /language, and its fixed replies."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable

from aiogram.types import TelegramObject

from dispatcher.bots.hooks import bot_commands, owners_help
from dispatcher.bots.telegram.core import BotAnswer, BotCore
from dispatcher.bots.telegram.messages import IncomingMessage
from dispatcher.bots.telegram.state import CANCELLED
from dispatcher.health.nights import read_nights
from dispatcher.queue.chat_commands import dispatcher_commands
from shared.hooks import Hooks
from shared.text.logs import Logger
from shared.text.translations import LANGUAGES, current_language, language_of, later, speaking, tr
from shared.turns.records import MODELS
from shared.turns.signed import choice

log = Logger()

#: What the bot answers by itself, as Telegram shows it in the menu.
MENU = {
    "help": later("what I can do"),
    "new": later("start a new conversation"),
    "status": later("whether I am running"),
    "language": later("the language in which I write my own messages"),
    "cancel": later("cancel messages that are not answered yet"),
    "model": later("choose the model"),
}
GROUPS = later(
    "In a group I answer when you mention my name, reply to me or send a command. There, only an owner may use /new, change the model or the "
    "language, switch the digest, have something forgotten or cancel the messages of others."
)
FILES = later(
    "Besides text I read pictures, documents and recordings, as far as my owner has set that up. To correct what I heard, reply to the recording."
)
START = later("Write to me and I answer. I remember what you say here, also in later conversations.")
NEW = later("I started a new conversation. I still remember the earlier ones.")
UNKNOWN = later("I do not know this command. /help lists the commands that I know.")
ONLY_TEXT = later("I cannot read a message of this kind, so I did not look at this. Please write what you want to say.")
EMPTY = later("This message contains no question. Please write one.")
BUSY = later(
    "Too many messages are waiting for an answer, so I did not accept this one, and I will not accept more until some are answered. "
    "Please send them again then."
)
STOPPING = later("I will stop as soon as I can.")
ANSWERED = later("That message is answered already, so there is nothing to stop.")
RUNNING = later("The dispatcher is running.")
NOT_RUNNING = later(
    "No dispatcher of hcli-memory is running, so answers will be delayed, unless another program gives them."
)
NOT_NEW = later("In a group only an owner may start a new conversation.")
NOT_THEIRS = later("In a group only an owner may cancel the messages of others.")
NO_CHOICE = {
    "model": later("In a group only an owner may change the model."),
    "language": later("In a group only an owner may change the language."),
}
CHOSEN = {
    "model": later("Model of this chat: {chosen}. To change it, send /model with one of {names}."),
    "language": later("My own messages here are in {language}. To change that, send /language with one of {names}."),
}
NOT_KNOWN = {
    "model": later("I do not know a model of that name. Choose one of {names}, for example /model {first}."),
    "language": later("I do not speak this language. Choose one of {names}, for example /language de."),
}
DEFAULT = "default"
CHOICES = {"model": (*MODELS, DEFAULT), "language": (*LANGUAGES, DEFAULT)}


def menu() -> dict[str, str]:
    """Command → what it does, in the order in which Telegram shows them."""
    return {"help": MENU["help"], "new": MENU["new"]} | dispatcher_commands() | MENU


def help_text(more: Iterable[str]) -> str:
    commands = "\n".join(f"/{name} - {tr(what)}" for name, what in menu().items())
    return "\n\n".join([tr(START), commands, tr(GROUPS), tr(FILES), *more])


def stranger(chat: int) -> str:
    return tr(
        "I only answer in chats that my owner has allowed, and this is not one of them. If you know the owner, ask them to allow chat id {chat}."
    ).format(chat=chat)


class Commands:
    """Answers to the commands called `names`."""

    def __init__(self, core: BotCore, hooks: Hooks) -> None:
        self._state, self._rights, self._hooks = core.state, core.rights, hooks
        self._answers: dict[str, Callable[[IncomingMessage], Awaitable[BotAnswer | str]]] = {
            **dict.fromkeys(("start", "help"), self._help),
            "new": self._new, "status": self._status, "cancel": self._cancel, "stop": self._stop,
            **dict.fromkeys(("model", "language"), self._choose),
            **{name: answer for found in hooks.ask(bot_commands) for name, answer in found.items()},
        }  # fmt: skip
        self.names = frozenset(self._answers)

    async def answer(self, _: TelegramObject, incoming: IncomingMessage) -> BotAnswer | str:
        return await self._answers[incoming.command](incoming)

    async def _help(self, incoming: IncomingMessage) -> str:
        owner = self._rights.counts_all(str(incoming.chat), incoming.group, incoming.own_id)
        return help_text(self._hooks.ask(owners_help) if owner else ())

    async def _choose(self, incoming: IncomingMessage) -> BotAnswer | str:
        """Of everybody without a choice, and of those who may with one."""
        command, wanted, chat = incoming.command, incoming.text.strip().lower(), str(incoming.chat)
        refusal = self._rights.refusal(NO_CHOICE[command], incoming.group, incoming.own_id)
        if refusal and wanted:
            return refusal
        value = language_of(wanted) or wanted if command == "language" else wanted
        known = value in CHOICES[command]
        if known:
            await self._state.chats.choose(chat, command, "" if value == DEFAULT else value)
        chosen = await self._state.chats.chosen(chat, command) or DEFAULT
        # The default language: each sender's, as their Telegram says.
        with speaking(await self._state.chats.language(chat) or incoming.language):
            names, language = ", ".join(CHOICES[command]), LANGUAGES[current_language()]
            text = tr((NOT_KNOWN if wanted and not known else CHOSEN)[command])
            text = text.format(chosen=chosen, language=language, names=names, first=MODELS[0])
        return BotAnswer(text, () if refusal else choice(command, CHOICES[command], chosen))

    async def _new(self, incoming: IncomingMessage) -> str:
        if refusal := self._rights.refusal(NOT_NEW, incoming.group, incoming.own_id):
            return refusal
        await self._state.chats.end_conversation(str(incoming.chat))
        return tr(NEW)

    async def _status(self, incoming: IncomingMessage) -> str:
        chat = str(incoming.chat)
        queued = await self._state.queue.queue_length()
        unanswered = await self._state.unanswered()
        here = sum(one.chat == chat for one in unanswered.values())
        counts = tr("Queued: {queued}, waiting in this chat: {here}.").format(queued=queued, here=here)
        work = tr(RUNNING if await self._state.queue.attended() else NOT_RUNNING)
        night = night_text(await self._state.queue.last_night(), time.time())
        return f"{work} {counts}\n{night}"

    async def _cancel(self, incoming: IncomingMessage) -> str:
        """Answers queued tasks itself and asks the dispatcher to stop the running ones. A member of a group can cancel only their own."""
        chat = str(incoming.chat)
        taken_back, asked, left = await self._state.cancel(chat, lambda _, whose: self._may_cancel(incoming, whose))
        text = cancel_text(taken_back, asked)
        return f"{text} {self._rights.refusal(NOT_THEIRS, incoming.group, incoming.own_id)}" if left else text

    def _may_cancel(self, incoming: IncomingMessage, whose: str | None) -> bool:
        own = incoming.own_id
        return self._rights.unlimited(incoming.group, own) or (own is not None and whose == own)

    async def _stop(self, incoming: IncomingMessage) -> BotAnswer | str:
        """Cancel one message; without an id as `/cancel`."""
        task_id = incoming.text.strip()
        if not task_id:
            return await self._cancel(incoming)
        one = (await self._state.unanswered()).get(task_id)
        if one is None or one.chat != str(incoming.chat):
            return BotAnswer(tr(ANSWERED), brief=True)
        if not self._may_cancel(incoming, one.user):
            return BotAnswer(self._rights.refusal(NOT_THEIRS, incoming.group, incoming.own_id), brief=True)
        taken_back, _, _ = await self._state.cancel(one.chat, lambda name, _: name == task_id)
        return BotAnswer(tr(CANCELLED if taken_back else STOPPING), brief=True)


def cancel_text(taken_back: int, asked: int) -> str:
    said = [tr("Cancelled before processing: {count}.").format(count=taken_back)] if taken_back else []
    said += [tr("In progress and asked to stop: {count}.").format(count=asked)] if asked else []
    return " ".join(said) or tr("You have no messages waiting, so there is nothing to cancel.")


def night_text(raw: bytes | None, now: float) -> str:
    good = read_nights([raw, None]).good
    if good is None:
        return tr("Memory has not been updated yet: no night has run.")
    return tr("Memory was last updated {hours} hours ago.").format(hours=round(max(0.0, now - good[1]) / 3600))
