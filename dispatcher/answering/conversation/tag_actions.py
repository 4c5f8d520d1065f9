"""The tags of an answer: carried out, removed from the text that is sent and stored, and their outcome added to the answer."""

from __future__ import annotations

import asyncio

from dispatcher.answering.hooks import Core
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.turn import TurnInProgress
from dispatcher.memory.typed import tags
from dispatcher.memory.typed.sentences import is_noted
from dispatcher.queue.consolidation.chat_turns import waiting
from dispatcher.queue.rights import FORGETTING_OTHERS
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.records import Task, Turn

log = Logger()

NOTED = later("Noted.")
LATER = later("My memory is not available at the moment; I will do this as soon as it is.")


async def carry_out(core: Core, turn: TurnInProgress) -> None:
    """Carry out the tags of the answer; the turn has what became of them. Never fails: what cannot be done now is stored for later."""
    parsed, task = turn.tags, turn.asked
    if parsed.strange:
        log.warning("tags without the code of their request are left as text", count=parsed.strange)
    if not parsed.tags:
        return
    acting = [tag for tag in parsed.tags if tags.is_carried_out(tag)]
    refusal = core.rights.refusal(FORGETTING_OTHERS, task.in_group, task.user_id)
    shown = None if turn.listed else turn.context.numbers
    given = tags.AnswerTags(task, turn.session, acting, turn.answered_at, refusal, shown)
    notes = list[str]()
    try:
        if any(tag.kind == tags.TagKind.FORGET for tag in acting):
            await store_waiting(core, task)
        if acting:
            acted = await asyncio.to_thread(core.day.requests.act, given)
            notes, turn.forgot, turn.unmet = acted.sentences, bool(acted.forgotten), acted.unmet
    except Exception as error:  # noqa: BLE001 - the answer must be sent; consolidation carries out the stored tags
        log.error("tags are stored for later", reason=str(error))
        turn.later_tags = given.to_json()
        if any(tag.kind in (tags.TagKind.DONE, tags.TagKind.FORGET) for tag in acting):
            notes = [tr(LATER)]
    crash_point("answering:acted")
    # As it is stored: whatever the chat's language is, Claude reads it.
    turn.said = parsed.text if parsed.text.strip() else NOTED
    noted_already = notes and turn.said is NOTED and is_noted(notes[0])  # once is enough
    turn.shown = "\n\n".join(notes if noted_already else [tr(NOTED) if turn.said is NOTED else turn.said, *notes])


async def store_waiting(core: Core, task: Task) -> None:
    """Store the latest turns now: forgetting searches the store, and one of these turns may repeat what is to be forgotten."""
    await asyncio.to_thread(core.day.upkeep.store_turns, await latest_turns(core, task))


async def latest_turns(core: Core, task: Task) -> list[Turn]:
    """The chat's turns that are not in the day store yet."""
    _, turns = await keep_trying(lambda: asyncio.to_thread(waiting, core.background, task.chat_id))
    return turns
