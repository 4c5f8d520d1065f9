"""A press of Allow or Deny below a question whether Claude may use a tool.

It is decided here and not by a task: the chat's queue waits for the answer that asks. The button was signed for its chat, the person who asked
Claude and the question's time; OWNERS may press it too. The first press counts, and what it decided is shown by the message's edit.
"""

from __future__ import annotations

import time

import structlog
from aiogram.types import CallbackQuery

from dispatcher.bots.telegram.approvals import ALLOW, DENY, ApprovalState
from dispatcher.bots.telegram.incoming.origins import shown_name
from dispatcher.bots.telegram.incoming.presses import Presses
from shared.config.settings import Settings
from shared.text.translations import later, tr
from shared.turns.records import well_formed
from shared.turns.signed.approvals import NAME_CHARACTERS, ToolDecision, ToolQuestion, Verdict

log = structlog.get_logger()

NOT_YOURS = later("Only the person who asked, or an owner, may answer this.")
OVER = later("This question is over.")
TAKEN = later("Your answer counts.")
_VERDICTS: dict[str, Verdict] = {ALLOW: "allowed", DENY: "denied"}


class ApprovalPresses:
    """One per bot."""

    def __init__(self, settings: Settings, state: ApprovalState, presses: Presses) -> None:
        self._owners, self._state, self._presses = settings.owner_ids, state, presses

    async def pressed(self, press: CallbackQuery, chat: int) -> str | None:
        """What is shown for a moment; None for the button of anything else."""
        data = press.data or ""
        word, _, approval_id = data.rpartition(".")[2].partition(" ")
        if word not in _VERDICTS or not approval_id:
            return None
        question = await self._state.open(approval_id)
        if question is None:
            return tr(OVER)
        person = str(press.from_user.id)
        signed_for = question.user_id or (question.chat_id if chat > 0 else "")
        command = self._presses.command(data, chat, signed_for)
        if command is None or str(chat) != question.chat_id or not self._may(person, chat, question):
            log.warning("a press about a tool was refused", chat=chat, approval=approval_id)
            return tr(NOT_YOURS)
        if not command or time.time() > question.ends:
            return tr(OVER)
        name = well_formed(shown_name(press.from_user))[:NAME_CHARACTERS]
        decision = ToolDecision(_VERDICTS[word], question.chat_id, person, name)
        return tr(TAKEN) if await self._state.answer(approval_id, decision) else tr(OVER)

    def _may(self, person: str, chat: int, question: ToolQuestion) -> bool:
        """In a private chat the person is the chat."""
        asked = question.user_id or (question.chat_id if chat > 0 else None)
        return person == asked or person in self._owners or (chat > 0 and person == question.chat_id)
