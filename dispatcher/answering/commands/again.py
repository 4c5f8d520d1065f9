"""`/why` and `/retry`: the buttons below an answer, also as typed commands (without a task id they mean the last answer); and edited messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from dispatcher.answering.commands.command import CommandReply, read_command
from dispatcher.answering.commands.explanation import why_text
from dispatcher.answering.retry import keep_trying
from dispatcher.memory.day.memory import DayMemory
from dispatcher.queue.chat_commands import EDITED_TOO_LATE
from dispatcher.queue.chats import ChatRecords
from dispatcher.queue.tasks import TaskQueue
from shared.text.translations import later, tr
from shared.turns.media import HEARD
from shared.turns.records import CORRECTED, Task, Turn
from shared.turns.signed import keyboard, row_of
from shared.wire.ids import TASK_ID

WHY_USAGE = later(
    "/why shows what memory I was given for my last answer. Below an answer, its button does the same for that answer."
)
RETRY_USAGE = later(
    "/retry makes me answer your last message again. The button below an answer does the same for that message."
)
NOTHING_TO_RETRY = later("I have no message of yours to answer again. Please send it again.")
NOTED = later("I remember the new text of your message from now on.")
ELSEWHERE = later("That message is somebody else's, so I cannot answer it again for you.")


class WhyCommand:
    """`/why [task id]`; one per dispatcher."""

    def __init__(self, records: ChatRecords) -> None:
        self._records = records

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        if text and not TASK_ID.match(text):
            return CommandReply(tr(WHY_USAGE))
        known = await keep_trying(lambda: self._records.explanations(task.chat_id))
        return CommandReply(why_text(known.get(text) if text else next(iter(known.values()), None)))


class RetryCommand:
    """`/retry [task id]`: the same message is asked again, by the task of the command. One per dispatcher.

    The earlier exchange stays as it was: it was said. The new one is stored beside it, and its question names the task that it repeats.
    """

    def __init__(self, records: ChatRecords, day: DayMemory) -> None:
        self._records, self._day = records, day

    async def question(self, task: Task, named: str) -> Task | CommandReply:
        """The task with the message to be asked again, or why there is none. A forgotten message is not asked again."""
        if named and not TASK_ID.match(named):
            return CommandReply(tr(RETRY_USAGE))
        refusal = NOTHING_TO_RETRY
        newest = [named] if named else await keep_trying(lambda: self._records.explanations(task.chat_id))
        for task_id in newest:
            if asked := await earlier_message(self._records, self._day, task.chat_id, task_id):
                if _may(task, asked):
                    return _again(task, asked)
                refusal = ELSEWHERE if named else refusal
        return CommandReply(tr(refusal))

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        """Only for a command that cannot become a question."""
        asked = await self.question(task, text)
        return asked if isinstance(asked, CommandReply) else CommandReply(tr(RETRY_USAGE))


class EditedMessages:
    """The new text of a message that was taken before: its turn is written anew, under its id; or it is asked, if it waits. One per dispatcher."""

    def __init__(self, queue: TaskQueue, records: ChatRecords, day: DayMemory) -> None:
        self._queue, self._records, self._day = queue, records, day

    async def question(self, task: Task, _: str) -> Task | None:
        """A question with its newest text; None for an edit itself."""
        edits = [] if task.edited else await keep_trying(lambda: self._queue.edits_of(task))
        newest = [edit for edit in edits if _replaces(edit, task)][-1:]
        return replace(task, message=newest[0].said) if newest else None

    async def reply_to(self, task: Task, text: str, now: float) -> CommandReply:  # noqa: ARG002
        turn = await earlier_message(self._records, self._day, task.chat_id, task.corrects or "")
        if turn is None or not _replaces(task, turn):
            return CommandReply(tr(EDITED_TOO_LATE), error=True)
        if turn.content == task.said:  # the question waited, and was asked with this text
            return CommandReply(tr(NOTED))
        again = () if task.in_group else keyboard(row_of((tr("Retry"), f"/retry {turn.task_id}")))
        corrected = replace(turn, content=task.said, extra=turn.extra | {CORRECTED: True})
        return CommandReply(tr(NOTED), buttons=again, corrected=corrected)


def _replaces(edit: Task, said: Task | Turn) -> bool:
    """Whether an edit may change what was said: not a recording, whose words are what was heard."""
    heard = any(one.kind in HEARD for one in said.media)
    return said.user_id == edit.user_id and not heard and not read_command(edit.message)


async def earlier_message(records: ChatRecords, day: DayMemory, chat_id: str, task_id: str) -> Turn | None:
    """The message of a task of this chat as it is remembered; None if it is not, or is forgotten."""
    turn = await keep_trying(lambda: records.question(chat_id, task_id))
    if turn is None and day.wanted:  # the night has taken it out of Redis
        named = await asyncio.to_thread(day.turns.named, chat_id, [f"{task_id}:user"])
        turn = named[0].turn if named else None
    return None if turn is None or day.forgotten.covers(turn) else turn


def _may(task: Task, turn: Turn) -> bool:
    """In a group only one's own message: it will be stored as said by who asks again."""
    return not task.in_group or (turn.user_id is not None and turn.user_id == task.user_id)


def _again(task: Task, turn: Turn) -> Task:
    name = turn.name or task.name
    return replace(task, message=turn.content, name=name, origin=turn.origin, media=turn.media, retries=turn.task_id)
