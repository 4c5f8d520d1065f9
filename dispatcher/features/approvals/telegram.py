"""Questions whether Claude may use a tool, in their chats: each is a message with two buttons, which is edited when it has ended.

    sent ─ its id noted ─ … ─ ended ─ edited ─ dropped

A crash between sending and noting asks twice; both messages have the same effect, and the first keeps its buttons. What a tool would be given is
shown in a block of its own, as it is: nothing in it becomes a link, and nothing can look like our own words.

A press of Allow or Deny is decided here and not by a task: the chat's queue waits for the answer that asks. The button was signed for its chat, the
person who asked Claude and the question's time; OWNERS may press it too. The first press counts, and what it decided is shown by the edit.
"""

from __future__ import annotations

import asyncio
import time

import redis
from aiogram.exceptions import TelegramAPIError, TelegramRetryAfter
from aiogram.types import CallbackQuery

from dispatcher.answering.retry import look_again
from dispatcher.bots.telegram.client import PASSING
from dispatcher.bots.telegram.core import BotCore
from dispatcher.bots.telegram.messages import shown_name
from dispatcher.bots.telegram.rendering import MessagePart
from dispatcher.bots.telegram.state import Waiting
from dispatcher.features.approvals.questions import NAME_CHARACTERS, ToolDecision, ToolQuestion, ToolQuestions, Verdict
from shared.hooks import hook
from shared.text.format import cut, utf16_units
from shared.text.logs import Logger
from shared.text.translations import later, speaking, tr
from shared.turns.message_origin import is_group
from shared.turns.records import well_formed
from shared.turns.signed import Button

log = Logger()

#: What the buttons have as their commands, with the id of the question; they are none that can be typed.
ALLOW, DENY = "allow", "deny"
#: Seconds between two looks, and after an error of Redis.
LOOK_SECONDS, REDIS_DOWN_SECONDS = 0.3, 2.0
#: Seconds after its time when a question is over even if no dispatcher says so: it may have died.
GRACE_SECONDS = 10.0
#: Seconds after its time when a message is given up that cannot be edited.
GIVE_UP_SECONDS = 3_600.0

ASKED = later("Claude wants to use {tool}:")
MAY_IT = later("Allow it this once? Without an answer within {seconds} seconds it is denied.")
ENDED = {
    "allowed": later("Allowed by {who}."),
    "denied": later("Denied by {who}."),
    "nobody": later("Nobody answered: denied."),
    "stopped": later("The answer was stopped or I am being restarted: denied."),
    "failed": later("Something went wrong: denied."),
}
NOT_YOURS = later("Only the person who asked, or an owner, may answer this.")
OVER = later("This question is over.")
TAKEN = later("Your answer was recorded.")
_VERDICTS: dict[str, Verdict] = {ALLOW: "allowed", DENY: "denied"}


class ApprovalMessages:
    """One per bot."""

    def __init__(self, core: BotCore) -> None:
        self._core, self._telegram, self._presses = core, core.telegram, core.presses
        self._marks, self._questions = core.state.marks, ToolQuestions(core.redis, core.secret)
        self._doing: dict[str, asyncio.Task[None]] = {}  # by question: no chat holds up another
        self._later: dict[str, float] = {}  # when Telegram may be asked again about a question

    @hook
    async def pressed(self, press: CallbackQuery, chat: int) -> str | None:
        data = press.data or ""
        word, _, approval_id = data.rpartition(".")[2].partition(" ")
        if word not in _VERDICTS or not approval_id:
            return None
        question = await self._questions.open(approval_id)
        if question is None:
            return tr(OVER)
        person = str(press.from_user.id)
        command = self._presses.command(data, chat, _asked_by(question))
        if command is None or str(chat) != question.chat_id or not self._may(person, question):
            log.warning("a press about a tool was refused", chat=chat, approval=approval_id)
            return tr(NOT_YOURS)
        if not command or time.time() > question.ends:
            return tr(OVER)
        name = cut(well_formed(shown_name(press.from_user)), NAME_CHARACTERS)
        decision = ToolDecision(_VERDICTS[word], question.chat_id, person, name)
        return tr(TAKEN) if await self._questions.answer(approval_id, decision) else tr(OVER)

    def _may(self, person: str, question: ToolQuestion) -> bool:
        return person in {_asked_by(question), question.chat_id} or person in self._core.settings.owner_ids

    @hook
    async def bot_background(self) -> None:
        try:
            await look_again("questions about tools", self._look, REDIS_DOWN_SECONDS)
        finally:
            for task in self._doing.values():
                task.cancel()
            await asyncio.gather(*self._doing.values(), return_exceptions=True)

    async def _look(self) -> float:
        found = await self._questions.questions()
        self._later = {name: at for name, at in self._later.items() if name in found}
        for name, question in found.items():
            if not _chat(question):  # another bot's, such as the terminal's
                continue
            if name not in self._doing and self._later.get(name, 0.0) <= time.monotonic():
                task = self._doing[name] = asyncio.create_task(self._do(name, question))
                task.add_done_callback(lambda _, name=name: self._doing.pop(name, None))  # type: ignore[misc]
        return LOOK_SECONDS

    async def _do(self, name: str, question: ToolQuestion) -> None:
        pause = 0.0
        try:
            record = (await self._core.state.deliveries.waiting()).get(question.task_id)
            with speaking(record.language if record else None):
                await self._show(name, question, _chat(question), record)
        except TelegramRetryAfter as flood:
            pause = flood.retry_after
        except (*PASSING, redis.RedisError, OSError):
            pause = REDIS_DOWN_SECONDS
        except TelegramAPIError as error:  # the chat is gone, or does not take it
            log.warning("a question about a tool cannot be shown", approval=name, error=str(error))
            if question.verdict or time.time() > question.ends:
                await self._questions.drop(name)
            pause = GRACE_SECONDS
        except Exception:  # a bug of ours: it is denied when its time is up
            log.exception("a question about a tool failed", approval=name)
            pause = GRACE_SECONDS
        self._later[name] = time.monotonic() + pause

    async def _show(self, name: str, question: ToolQuestion, chat: int, record: Waiting | None) -> None:
        if not await self._core.allows(chat):
            log.error("a question about a tool is removed: its chat is not allowed", chat=question.chat_id)
            await self._questions.drop(name)
            return
        shown = await self._marks.noted(_mark(name))
        over = time.time() - question.ends
        if not shown:
            if question.verdict or over > 0:
                await self._questions.drop(name)
            else:
                await self._ask(name, question, chat, record)
        elif question.verdict or over > GRACE_SECONDS:
            if (message := int(shown)) and over < GIVE_UP_SECONDS:  # else it has no known id
                end = tr(ENDED.get(question.verdict, ENDED["nobody"])).format(who=question.who or "?")
                await self._telegram.edit(chat, message, _text(question, end))
            await self._questions.drop(name)

    async def _ask(self, name: str, question: ToolQuestion, chat: int, record: Waiting | None) -> None:
        left = question.ends - time.time()
        part = _text(question, tr(MAY_IT).format(seconds=max(1, round(left))))
        thread, reply_to = (record.thread, record.reply_to) if record else (None, None)
        row = [
            (label, self._presses.data(Button(label, f"/{word} {name}"), chat, _asked_by(question), left))
            for label, word in ((tr("Allow"), ALLOW), (tr("Deny"), DENY))
        ]
        message = await self._telegram.send(chat, part, thread=thread, reply_to=reply_to, buttons=[row])
        await self._marks.note(_mark(name), str(message).encode())


def _chat(question: ToolQuestion) -> int:
    """0, which is no chat, for an id that is none of Telegram's."""
    try:
        return int(question.chat_id)
    except ValueError:
        return 0


def _asked_by(question: ToolQuestion) -> str:
    """In a private chat the person is the chat; "" for nobody who is known."""
    return question.user_id or ("" if is_group(question.chat_id) else question.chat_id)


def _mark(name: str) -> str:
    """Under which the message that asks is noted."""
    return f"approval-{name}"


def _text(question: ToolQuestion, end: str) -> MessagePart:
    head = tr(ASKED).format(tool=question.tool) + "\n"
    block = {"type": "pre", "offset": utf16_units(head), "length": utf16_units(question.text)}
    return MessagePart(f"{head}{question.text}\n\n{end}", [block])
