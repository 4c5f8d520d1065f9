"""`/memory`: what is stored of the chat, and how to change it; with buttons to look through it.

the list ─ a number ─ the entry ─ Forget: asks once, forgets, the list again
                                ├ Edit: a reply with the new text replaces it
                                ├ Done (an open goal): the list again
                                └ Back: the page of the list
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.answering.commands.command import CommandReply
from dispatcher.answering.conversation.tag_actions import store_waiting
from dispatcher.answering.hooks import Core, memory_chat_commands
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.day.requests import owner_task
from dispatcher.memory.tombstones import announce, end_conversation
from dispatcher.queue.consolidation.chat_turns import waiting
from dispatcher.queue.rights import COMPLETING, EDITING, FORGETTING_OTHERS
from shared.hooks import Hooks
from shared.text.format import one_line, shorten
from shared.text.translations import later, tr
from shared.turns.records import Task
from shared.turns.signed import keyboard, row_of

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.typed.actions import Outcome
    from dispatcher.memory.typed.pages import MemoryEntry

USAGE = later(
    "/memory shows facts, goals and preferences; /memory page 2 the next ones\n"
    "/memory show N shows all that I know of the entry with that number\n"
    "/memory add TEXT stores a fact\n"
    "/memory edit N TEXT replaces the text of that entry\n"
    "/memory done N marks a goal as done\n"
    "/memory forget N forgets that entry, and the message it came from"
)
NO_ENTRY = later("There is no memory number {number}. /memory shows the numbers.")
REPLACED = later(
    "Number {number} was replaced by a newer entry already, so it cannot be changed. /memory shows the newer one."
)
FORGET_THIS = later("Forget this, with the messages that it comes from?")
HOW_TO_EDIT = later(
    "Reply to this message with the new text of number {number} (or send /memory edit {number} and the text); it then replaces the old one."
)
#: The longest that an entry is quoted in a question.
QUOTED = 300

_NUMBER = r"[0-9]{1,9}"
#: Names with what follows them: a number, and what may follow that.
_NUMBERED = {
    **dict.fromkeys(("page", "show", "done"), re.compile(rf"({_NUMBER})()\Z")),
    "forget": re.compile(rf"({_NUMBER})(?:\s+(ask|yes))?\Z"),
    "edit": re.compile(rf"({_NUMBER})(?:\s+(.*))?\Z", re.DOTALL),
}


@dataclass(frozen=True)
class MemoryRequest:
    """`show` (the list, at the page `number`), `add` with its text, `usage`; with the number of an entry `entry`, `done`, `edit` with the
    new text ("": ask for it), `forget` (`text`: `ask` only asks, `yes` answers that question, "" is typed)."""

    name: str
    text: str = ""
    number: int = 0


def parse(text: str) -> MemoryRequest:
    """What follows `/memory`."""
    words = text.split(maxsplit=1)
    if not words:
        return MemoryRequest("show")
    word, rest = words[0].lower(), words[1].strip() if len(words) > 1 else ""
    if word == "add" and rest:
        return MemoryRequest("add", rest)
    if word in _NUMBERED and (found := _NUMBERED[word].match(rest)):
        name = {"show": "entry", "page": "show"}.get(word, word)
        return MemoryRequest(name, (found[2] or "").strip(), int(found[1]))
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
    """One per dispatcher."""

    def __init__(self, core: Core, hooks: Hooks) -> None:
        self._core, self._day, self._enabled = core, core.day, core.remembers
        self._of_features = {name: one for some in hooks.ask(memory_chat_commands) for name, one in some.items()}

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:
        word, _, rest = text.strip().partition(" ")
        if self._enabled and (handler := self._of_features.get(word.lower())):
            return await handler.reply_to(task, rest.strip(), now)
        request = parse(text)
        if request.name == "usage":
            return CommandReply(tr(USAGE))
        if not self._enabled:
            return CommandReply(tr("I do not store memories: DAY_STORE_URL or MEMORY_TOKENS switches it off."))
        reply: CommandReply = await getattr(self, f"_{request.name}")(task, request, now)
        return reply

    async def _show(
        self, task: Task, request: MemoryRequest, now: float, said: str = "", *, forgotten: bool = False
    ) -> CommandReply:
        """The list at a page, below what was `said`."""
        page = await asyncio.to_thread(self._day.requests.page, task.chat_id, request.number, now)
        numbers = row_of(*((str(number), f"/memory show {number}") for number in page.numbers))
        before = [(tr("‹ Back"), f"/memory page {page.page - 1}")] if page.page > 1 else []
        after = [(tr("More ›"), f"/memory page {page.page + 1}")] if page.page < page.pages else []
        text = "\n\n".join(filter(None, [said, page.text]))
        return CommandReply(text, forgotten, buttons=keyboard(numbers, row_of(*before, *after)))

    async def _entry(self, task: Task, request: MemoryRequest, now: float) -> CommandReply:
        entry = await asyncio.to_thread(self._day.requests.entry, task.chat_id, request.number, now)
        if entry is None:
            return CommandReply(tr(NO_ENTRY).format(number=request.number))
        number, offered = entry.number, list[tuple[str, str]]()
        if not self._refusal(EDITING, task, entry):
            offered.append((tr("Forget"), f"/memory forget {number} ask"))
            offered += [(tr("Edit"), f"/memory edit {number}")] if entry.valid else []
        may_complete = entry.open_goal and not self._refusal(COMPLETING, task, entry, shared_too=True)
        offered += [(tr("Done"), f"/memory done {number}")] if may_complete else []
        return CommandReply(
            entry.text, buttons=keyboard(row_of(*offered), row_of((tr("‹ Back"), f"/memory page {entry.page}")))
        )

    async def _add(self, task: Task, request: MemoryRequest, now: float) -> CommandReply:
        outcome = await asyncio.to_thread(self._day.acting.add, task, request.text, now)
        return CommandReply(outcome.say, bool(outcome.forgotten))

    async def _edit(self, task: Task, request: MemoryRequest, now: float) -> CommandReply:
        """With a text it replaces the entry; without one it asks for the text."""
        number = request.number
        entry = await asyncio.to_thread(self._day.requests.entry, task.chat_id, number, now)
        if refusal := self._refusal(EDITING, task, entry):
            return CommandReply(refusal)
        back = keyboard(row_of((tr("‹ Back"), f"/memory show {number}")))
        if request.text:
            outcome = await asyncio.to_thread(
                self._day.acting.correct, task, number, request.text, now, f"{task.task_id}:user"
            )
            return CommandReply(outcome.say, buttons=keyboard(row_of((tr("Show all"), "/memory"))))
        if entry is None or not entry.valid:
            return CommandReply(tr(REPLACED if entry else NO_ENTRY).format(number=number))
        quoted = shorten(one_line(entry.text.partition("\n")[0]), QUOTED)
        asked = f"{tr(HOW_TO_EDIT).format(number=number)}\n\n{quoted}"
        return CommandReply(asked, buttons=back, reply_command=f"/memory edit {number}")

    async def _done(self, task: Task, request: MemoryRequest, now: float) -> CommandReply:
        entry = await asyncio.to_thread(self._day.requests.entry, task.chat_id, request.number, now)
        if entry and (refusal := self._refusal(COMPLETING, task, entry, shared_too=True)):
            return CommandReply(refusal)
        outcome = await asyncio.to_thread(self._day.acting.done, task, request.number, now)
        return CommandReply(outcome.say, buttons=keyboard(row_of((tr("Show all"), "/memory"))))

    async def _forget(self, task: Task, request: MemoryRequest, now: float) -> CommandReply:
        number = request.number
        entry = await asyncio.to_thread(self._day.requests.entry, task.chat_id, number, now)
        if refusal := self._refusal(FORGETTING_OTHERS, task, entry):
            return CommandReply(refusal)
        if request.text == "ask":
            if entry is None:
                return CommandReply(tr(NO_ENTRY).format(number=number))
            quoted = shorten(entry.text.partition("\n")[0], QUOTED)
            question = f"{tr(FORGET_THIS)}\n\n{quoted}"
            choice = row_of(
                (tr("Yes, forget it"), f"/memory forget {number} yes"), (tr("No"), f"/memory show {number}")
            )
            return CommandReply(question, buttons=keyboard(choice))
        await store_waiting(self._core, task)
        outcome = await asyncio.to_thread(self._day.requests.forget_number, task, number, now)
        if request.text == "yes":
            page = MemoryRequest("show", number=entry.page if entry else 1)
            return await self._show(task, page, now, outcome.say, forgotten=bool(outcome.forgotten))
        return CommandReply(outcome.say, bool(outcome.forgotten))

    def _refusal(self, what: str, task: Task, entry: MemoryEntry | None, *, shared_too: bool = False) -> str:
        """Why this person may not do this with an entry; "" for their own, and with `shared_too` for the whole chat's."""
        own = entry is not None and entry.user_id is not None and entry.user_id == task.user_id
        shared = entry is not None and entry.user_id is None and shared_too
        return "" if own or shared else self._core.rights.refusal(what, task.in_group, task.user_id)
