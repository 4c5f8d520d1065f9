"""A message that is for Claude: context, session, answer.

    context ─ claude (again where that helps: a busy or lost session, a memory that is refused) ─ tags ─ Finished

Memory that is missing, broken or slow makes the answer poorer, but there is always an answer. An error is answered with a sentence that is not
stored: only the user's turn is.
"""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from dispatcher.answering.conversation.ask_claude import ClaudeCaller, ContextLookup
from dispatcher.answering.conversation.tag_actions import carry_out
from dispatcher.answering.hooks import Core, answered, prepare
from dispatcher.answering.results import said_at
from dispatcher.answering.retry import keep_trying
from dispatcher.answering.turn import TurnInProgress
from dispatcher.claude.reply import Answer, Follows
from dispatcher.memory.typed import tags
from dispatcher.prompt.context import Context
from dispatcher.queue.cancellation import RunCancelled
from dispatcher.queue.tasks import Finished
from shared.hooks import Hooks
from shared.system.faults import crash_point
from shared.text.logs import Logger
from shared.text.translations import tr
from shared.turns.media import name_of

log = Logger()

#: A session that another CLI is in is tried again after these pauses: a killed dispatcher's ends with its answer.
BUSY_PAUSES_SECONDS = (1.0, 3.0, 9.0, 27.0)


class ConversationAnswerer:
    """One per dispatcher."""

    def __init__(self, core: Core, claude: ClaudeCaller, lookup: ContextLookup, hooks: Hooks) -> None:
        self._core, self._claude, self._lookup, self._hooks = core, claude, lookup, hooks
        self._results, self._replays = core.results, core.settings.session_mode == "replay"

    async def answer(self, turn: TurnInProgress) -> Finished:
        """What the turn leaves behind; a cancelled result if it is cancelled while Claude runs."""
        begun, remembers = turn.begun, self._core.remembers
        try:
            await turn.run.while_wanted(self._prepare(turn))
            if turn.refusal:
                return self._results.unanswered(turn, turn.refusal, "error")
            await turn.run.while_wanted(self._ask(turn))
        except RunCancelled:
            if turn.run.abandoned:
                log.warning(
                    "the bot no longer waits for this answer: it was cancelled there, or the bot timed out",
                    seconds=round(time.monotonic() - turn.run.began),
                )
            return self._results.cancelled(turn)
        except OSError as error:  # a full disk, a directory that cannot be made
            turn.answer = Answer("", error=tr("a file could not be written ({reason})").format(reason=error.strerror))
            turn.session, turn.context = begun.session if begun.resume else "", Context("")
        if self._replays:  # the id only marks the conversation, so that /new is noticed
            turn.session = begun.session
        turn.answered_at = max(time.time(), said_at(turn.asked, turn.claimed_at))
        if turn.answer.error is None:
            turn.said = turn.shown = turn.answer.text
            turn.tags = tags.parse(turn.said, turn.code) if remembers else tags.Parsed(turn.said)
            for added in await self._hooks.ask_async(answered, turn=turn):
                turn.add(added)
            crash_point("answering:added")
            await carry_out(self._core, turn)
        return self._results.answered(turn)

    async def _prepare(self, turn: TurnInProgress) -> None:
        """Have features read the message. Files that none of them has read are named to Claude."""
        for found in await self._hooks.ask_async(prepare, turn=turn):
            turn.prepare(found)
        if turn.asked.media and not (turn.lines or turn.refusal):
            kinds = ", ".join(name_of(one.kind) for one in turn.asked.media)
            turn.lines.append(f"Attached, and not readable for you: {kinds}.")

    async def _ask(self, turn: TurnInProgress) -> None:
        """Ask Claude; a busy session is waited for, a lost one is replaced once by a new one."""
        begun = turn.begun
        session, resume = begun.session, begun.resume and not self._replays
        turn.context = await self._lookup.context_of(
            turn.asked, None if resume else begun.history, session if resume else None
        )
        used = str(uuid4()) if self._replays else session
        turn.answer = await self._claude.ask(turn, used, resume=resume)
        for seconds in BUSY_PAUSES_SECONDS:
            if turn.answer.follows is not Follows.SAME_SESSION:
                break
            await asyncio.sleep(seconds)
            resume = resume or not self._replays  # whoever is in it has made it
            turn.answer = await self._claude.ask(turn, used, resume=resume)
        if turn.answer.follows is Follows.WITHOUT_MEMORY and turn.context.text:
            log.warning("the provider refuses this request, trying it without memory", reason=turn.answer.error)
            turn.context = Context("")
            if not resume:  # the refused question has begun that session
                used = str(uuid4())
                session = session if self._replays else used
            turn.answer = await self._claude.ask(turn, used, resume=resume)
        turn.session = session if resume or turn.answer.error is None else ""
        if resume and turn.answer.follows in (Follows.NEW_SESSION, Follows.SAME_SESSION):
            log.warning("the session cannot be resumed, trying a new one", reason=turn.answer.error)
            fresh = str(uuid4())
            history = await keep_trying(lambda: self._core.queue.recent(turn.asked, self._lookup.tombstones(turn.task)))
            turn.context = await self._lookup.context_of(turn.asked, history, None)
            turn.answer = await self._claude.ask(turn, fresh, resume=False)
            turn.session = fresh if turn.answer.error is None else session
