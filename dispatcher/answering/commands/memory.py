"""`/memory`: what is stored of the chat, why it was injected, and how to change it."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.commands.explanation import why_text
from dispatcher.answering.consolidation import waiting
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.tag_actions import FORGETTING, store_waiting
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.requests import owner_task
from dispatcher.memory.tombstones import announce, end_conversation
from dispatcher.queue.rights import Rights
from dispatcher.queue.tasks import TaskQueue
from shared.turns.records import Task

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.typed.actions import Outcome

USAGE = "\n".join(
    [
        "/memory shows facts, goals and preferences",
        "/memory why shows what memory I was given for my last answer",
        "/memory add TEXT stores a fact",
        "/memory forget N forgets the entry with that number, and the message it came from",
    ]
)


@dataclass(frozen=True)
class MemoryRequest:
    """`show`, `why`, `add` with its text, `forget` with its number, or `usage`."""

    name: str
    text: str = ""
    number: int = 0


def parse(text: str) -> MemoryRequest:
    """What follows `/memory`."""
    words = text.split(maxsplit=1)
    if not words:
        return MemoryRequest("show")
    word, rest = words[0].lower(), words[1].strip() if len(words) > 1 else ""
    if word == "why" and not rest:
        return MemoryRequest("why")
    if word == "add" and rest:
        return MemoryRequest("add", rest)
    if word == "forget" and re.fullmatch(r"[0-9]{1,9}", rest):
        return MemoryRequest("forget", number=int(rest))
    return MemoryRequest("usage")


def forget_for_owner(day: DayMemory, client: Redis, chat_id: str, number: int) -> Outcome:
    """Forget a memory and the turns that it came from, beside the chat. RedisError or StoreUnavailable if it cannot be done now.

    The conversation ends, since it may contain what is forgotten.
    """
    day.upkeep.store_turns(waiting(client, chat_id)[1])  # the latest turns may contain it too
    end_conversation(client, chat_id)  # first: if Redis is not reachable, nothing is changed at all
    outcome = day.requests.forget_number(owner_task(chat_id), number, time.time())
    announce(client, day.forgotten.of(chat_id))
    end_conversation(client, chat_id)  # an answer may have come in between
    return outcome


class MemoryCommands:
    """One per dispatcher. `enabled`: whether memories are stored at all."""

    def __init__(self, queue: TaskQueue, day: DayMemory, rights: Rights, *, enabled: bool) -> None:
        self._queue, self._day, self._rights, self._enabled = queue, day, rights, enabled

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        command = parse(text)
        if command.name == "usage":
            return CommandReply(USAGE)
        if command.name == "why":
            return CommandReply(why_text(await keep_trying(lambda: self._queue.why(task))))
        if not self._enabled:
            return CommandReply("I do not store memories: DAY_STORE_URL or MEMORY_TOKENS switches it off.")
        if command.name == "show":
            return CommandReply(await asyncio.to_thread(self._day.requests.listing, task.chat_id, now))
        if command.name == "add":
            outcome = await asyncio.to_thread(self._day.requests.add, task, command.text, now)
            return CommandReply(outcome.say, bool(outcome.forgotten))
        return await self._forget(task, command.number, now)

    async def _forget(self, task: Task, number: int, now: float) -> CommandReply:
        if refusal := self._rights.refusal(FORGETTING, task.chat_id, task.user_id):
            return CommandReply(refusal)
        await store_waiting(self._queue, self._day, task)
        outcome = await asyncio.to_thread(self._day.requests.forget_number, task, number, now)
        return CommandReply(outcome.say, bool(outcome.forgotten))
