"""The tags of an answer: carried out, removed from the text that is sent and stored, and their outcome added to the answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from dispatcher.answering.media.reading import Read, with_shown
from dispatcher.answering.results import ResultBuilder
from dispatcher.answering.retry import keep_trying
from dispatcher.claude.reply import Answer
from dispatcher.memory.day.later_tags import later_tags
from dispatcher.memory.day.memory import DayMemory
from dispatcher.memory.typed import tags
from dispatcher.memory.typed.sentences import is_noted
from dispatcher.queue.rights import FORGETTING_OTHERS, Rights
from dispatcher.queue.tasks import Finished, TaskQueue
from shared.config.settings import Settings
from shared.system.faults import crash_point
from shared.text.translations import later, tr
from shared.turns.records import Task

log = structlog.get_logger()

NOTED = later("Noted.")
LATER = later("My memory is not available at the moment; I will do this as soon as it is.")


class TagActions:
    """One per dispatcher. `enabled`: whether memories are stored at all."""

    def __init__(
        self, settings: Settings, queue: TaskQueue, day: DayMemory, rights: Rights, results: ResultBuilder
    ) -> None:
        self._queue, self._day, self._rights, self._results = queue, day, rights, results
        self.enabled = day.wanted and settings.memory_tokens > 0

    async def apply(self, finished: Finished, answer: Answer, code: str, read: Read) -> Finished:
        """`finished` after carrying out the tags of the answer. Never fails: tags that cannot be carried out now are stored for later."""
        if answer.error is not None or not self.enabled:
            return finished
        parsed = tags.parse(answer.text, code)
        if parsed.strange:
            log.warning("tags without the code of their request are left as text", count=parsed.strange)
        if not parsed.tags:
            return finished
        finished = _with_pictures(finished, read, tags.pictures_of(parsed.tags))
        task, said_at = finished.task, finished.turns[-1].timestamp
        acting = [tag for tag in parsed.tags if tag.kind is not tags.TagKind.PICTURE]
        refusal = self._rights.refusal(FORGETTING_OTHERS, task.chat_id, task.user_id)
        given = (task, finished.session, acting, said_at, refusal)
        notes, kept, forgotten = list[str](), b"", list[str]()
        try:
            if any(tag.kind is tags.TagKind.FORGET for tag in acting):
                await store_waiting(self._queue, self._day, task)
            if acting:
                acted = await asyncio.to_thread(self._day.requests.act, *given)
                notes, forgotten = acted.sentences, acted.forgotten
        except Exception as error:  # noqa: BLE001 - the answer must be sent; consolidation carries out the stored tags
            log.error("tags are stored for later", reason=str(error))
            kept = later_tags(*given)
            if any(tag.kind in (tags.TagKind.DONE, tags.TagKind.FORGET) for tag in acting):
                notes = [tr(LATER)]
        crash_point("answering:acted")
        said = (
            parsed.text if parsed.text.strip() else NOTED
        )  # as it is stored: whatever the chat's language is, Claude reads it
        noted_already = notes and said is NOTED and is_noted(notes[0])  # once is enough
        output = "\n\n".join(notes if noted_already else [tr(NOTED) if said is NOTED else said, *notes])
        turns = [replace(turn, content=said) if turn.role == "asst" else turn for turn in finished.turns]
        result = self._results.sign(task.task_id, output, finished.result.usage, buttons=finished.result.buttons)
        return replace(finished, result=result, turns=turns, tags=kept, forget=bool(forgotten))


def _with_pictures(finished: Finished, read: Read, said: dict[int, str]) -> Finished:
    """What is in each picture is remembered with the message."""
    question = finished.turns[0]
    if not said or not read.pictures or question.role != "user":
        return finished
    media = [one.to_json() for one in with_shown(question.media, read.pictures, said)]
    question = replace(question, extra=question.extra | {"media": media})
    return replace(finished, turns=[question, *finished.turns[1:]])


async def store_waiting(queue: TaskQueue, day: DayMemory, task: Task) -> None:
    """Store the latest turns now: forgetting searches the store, and one of these turns may repeat what is to be forgotten."""
    waiting = await keep_trying(lambda: queue.waiting(task))
    await asyncio.to_thread(day.upkeep.store_turns, waiting)
