"""What the bot answers by itself: /start, /help, /new, /status, /stats, /cancel, /model, and the sentences that it says unasked."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import redis
import structlog

from dispatcher.queue.rights import Rights
from dispatcher.telegram.state import BotState, Waiting
from dispatcher.telegram.updates import IncomingMessage
from shared.turns.records import MODELS, RecordRefused, Result, loads_object
from shared.wire import keys

log = structlog.get_logger()

#: The menu, as Telegram shows it.
MENU = {
    "help": "what I can do",
    "new": "begin a new conversation",
    "memory": "what I remember of you",
    "status": "whether I am at work",
    "stats": "what was done today",
    "cancel": "take back what is not answered yet",
    "model": "choose the model",
}
HELP = "\n".join(
    [
        "Write to me, and I answer. What you say here I remember, also in later conversations.",
        "",
        *(f"/{name} - {what}" for name, what in MENU.items()),
        "",
        "In a group I answer when my name is mentioned, when you reply to me, or to a command. There /new, another model, forgetting, and to "
        "cancel what others asked are for my owner. I read text only; of a picture or a file the words under it.",
    ]
)
NEW = "A new conversation begins. What I remember of earlier ones stays."
UNKNOWN = "I do not know this command. /help shows those that I know."
ONLY_TEXT = "I can read text only, so I did not look at this. Please write what you want to say."
EMPTY = "There is no question in this message. Please write one."
BUSY = (
    "Too many messages are waiting for an answer, so I did not take this one, nor those that come before some are answered. "
    "Please send them again then."
)
TOO_LONG = "This message is too long, so I did not take it. Please send it in several shorter ones."
EDITED = "I had taken the earlier text by then, so the change was not read. Please send the new text as a message."
CANCELLED = "Cancelled."


def stranger(chat: int) -> str:
    return (
        f"I answer only in chats that my owner has allowed, and this one is not among them. "
        f"If you know the owner, ask for chat id {chat} to be added."
    )


class Commands:
    """Answers to commands; None for one that is not known here."""

    def __init__(self, state: BotState, secret: str, rights: Rights, zone: ZoneInfo) -> None:
        self._state, self._secret, self._rights, self._zone = state, secret, rights, zone

    async def answer(self, incoming: IncomingMessage) -> str | None:
        chat, user = str(incoming.chat), incoming.own_id
        if incoming.command in ("start", "help"):
            return HELP
        if incoming.command == "new":
            return self._rights.refusal("begin a new conversation", chat, user) or await self._new(chat)
        if incoming.command == "status":
            return await self._status(chat)
        if incoming.command == "stats":
            return await self._stats(chat, user)
        if incoming.command == "cancel":
            return await self._cancel(chat, user)
        if incoming.command == "model":
            wanted = incoming.text.strip().lower()
            refusal = self._rights.refusal("choose another model", chat, user) if wanted else ""
            return refusal or await self._model(chat, wanted)
        return None

    async def _new(self, chat: str) -> str:
        await self._state.end_conversation(chat)
        return NEW

    async def _stats(self, chat: str, user: str | None) -> str:
        here, everywhere = keys.chat_stats(datetime.now(self._zone).strftime("%Y-%m-%d"), chat)
        said = stats_text("this chat", await self._state.stats(here))
        if not self._rights.counts_all(chat, user):
            return said
        return f"{said}\n{stats_text('all chats', await self._state.stats(everywhere))}"

    async def _status(self, chat: str) -> str:
        queued = await self._state.queue_length()
        unanswered = await self._unanswered()
        here = sum(one.chat == chat for one in unanswered.values())
        try:
            living, gone = await self._state.dispatchers()
            night = night_text(await self._state.last_night(), time.time())
        except redis.exceptions.NoPermissionError:
            return f"Queued: {queued}, waiting in this chat: {here}."
        taken = len(unanswered) - queued
        work = dispatcher_text(living, gone, queued, taken, by_another=self._state.answered_by_another)
        return f"{work} Queued: {queued}, waiting in this chat: {here}.\n{night}"

    async def _cancel(self, chat: str, user: str | None) -> str:
        """Queued tasks are answered by us; of the others the dispatcher is told. A member of a group cancels his own."""
        everybodys = self._rights.unlimited(chat, user)

        def may(whose: str | None) -> bool:
            return everybodys or (user is not None and whose == user)

        taken_back, asked = 0, 0
        for raw, task in await self._state.queued():
            if task.chat_id == chat and may(task.user_id):
                result = Result.sign(self._secret, task.task_id, CANCELLED, datetime.now(UTC).isoformat(), error=True)
                taken_back += await self._state.cancel_queued(raw, task.task_id, result)
        left = {name: one for name, one in (await self._unanswered()).items() if one.chat == chat}
        for task_id, one in left.items():
            if may(one.user):
                await self._state.cancel_running(task_id)
                asked += 1
        text = cancel_text(taken_back, asked)
        return text if asked == len(left) else f"{text} {self._rights.refusal('cancel what others asked', chat, user)}"

    async def _unanswered(self) -> dict[str, Waiting]:
        """What waits for an answer that is not there yet."""
        found = {name: one for name, one in (await self._state.waiting()).items() if one.text is None}
        answered, _ = await self._state.results(list(found))
        return {name: one for name, one in found.items() if name not in answered}

    async def _model(self, chat: str, wanted: str) -> str:
        names = ", ".join((*MODELS, "default"))
        if not wanted:
            return f"The model here is {await self._state.model(chat) or 'default'}. /model with one of {names} changes it."
        if wanted not in (*MODELS, "default"):
            return f"I know no model of that name. Choose one of {names}, such as /model {MODELS[0]}."
        await self._state.choose_model(chat, None if wanted == "default" else wanted)
        return f"From the next message on, the model here is {wanted}."


def cancel_text(taken_back: int, asked: int) -> str:
    if not (taken_back or asked):
        return "Nothing of yours is waiting, so there is nothing to cancel."
    lines = []
    if taken_back:
        lines.append(f"Taken back before it was begun: {taken_back}.")
    if asked:
        lines.append(f"In the making, and asked to stop: {asked}.")
    return " ".join(lines)


def dispatcher_text(living: int, gone: int, queued: int, taken: int, *, by_another: bool) -> str:
    """Who is at work. Of another program's dispatcher, such as h-cli's, only its work is seen: messages that it has taken, or answered."""
    if living:
        return "The dispatcher is at work."
    if taken > 0 and not gone:
        return "A dispatcher other than hcli-memory's is at work."
    if queued or taken > 0:
        return "No dispatcher is at work, so answers will take a while."
    if by_another:
        return "A dispatcher other than hcli-memory's gave the last answer."
    return "No dispatcher of hcli-memory is at work. Whether another one is, I see when it takes a message."


def night_text(raw: bytes | None, now: float) -> str:
    try:
        hours = max(0.0, now - float(loads_object(raw)["finished_at"])) / 3600 if raw else None
    except (RecordRefused, KeyError, TypeError, ValueError):
        hours = None
    if hours is None:
        return "Memory was not brought up to date yet: no night has been run."
    return f"Memory was brought up to date {hours:.0f} hours ago."


def stats_text(where: str, counters: dict[str, str]) -> str:
    """Counters of the day in words; what is no number counts as none."""

    def number(name: str) -> float:
        try:
            return float(counters.get(name, "0"))
        except ValueError:
            return 0.0

    if not counters:
        return f"Nothing was done today in {where} so far."
    return (
        f"Today in {where}: {number('tasks'):.0f} messages, {number('errors'):.0f} of them failed. "
        f"Tokens: {number('input_tokens'):.0f} in, {number('output_tokens'):.0f} out, "
        f"{number('cache_read'):.0f} from the cache. Cost: {number('cost_usd'):.4f} USD."
    )


def task_of(incoming: IncomingMessage, task_id: str, text: str, model: str | None) -> dict[str, Any]:
    """A task as the contract has it."""
    task: dict[str, Any] = {
        "task_id": task_id,
        "message": text,
        "chat_id": incoming.chat,
        "user_id": incoming.user,
        "submitted_at": incoming.said_at,
    }
    if model in MODELS:
        task["model"] = model
    if incoming.name:
        task["name"] = incoming.name
    return task | incoming.origin.to_json()
