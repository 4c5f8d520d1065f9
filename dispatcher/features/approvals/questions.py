"""Questions whether Claude may use a tool, as a bot reads them in Redis, and their answers (approvals.py asks them).

A question is signed by the dispatcher, its answer by the bot. An answer is written once: who comes second has no effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import structlog
from redis.asyncio import Redis

from dispatcher.features.approvals import keys
from dispatcher.features.approvals.signed import ToolDecision, ToolQuestion, Verdict
from shared.turns.records import RecordRefused

log = structlog.get_logger()


class ToolQuestions:
    """One per bot. Everything may be repeated."""

    def __init__(self, redis: Redis, secret: str) -> None:
        self._redis, self._secret = redis, secret
        self._warned = set[str]()

    async def questions(self) -> dict[str, ToolQuestion]:
        """Id → question, of those that were asked and not taken back. What the dispatcher has not signed is ignored."""
        found = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(keys.OPEN))
        questions = dict[str, ToolQuestion]()
        for name, raw in found.items():
            approval_id = name.decode("utf-8", "replace")
            try:
                questions[approval_id] = ToolQuestion.verified(self._secret, approval_id, raw)
            except RecordRefused as error:
                self._warn(approval_id, "a question about a tool is not signed by the dispatcher and is ignored", error)
        return questions

    async def open(self, approval_id: str) -> ToolQuestion | None:
        """The question of this id, if there is one without an end."""
        question = (await self.questions()).get(approval_id)
        return question if question and not question.verdict else None

    async def answer(self, approval_id: str, decision: ToolDecision) -> bool:
        """Whether this is the decision that counts."""
        raw = decision.to_json(self._secret, approval_id)
        return bool(await self._redis.set(keys.decision(approval_id), raw, nx=True, ex=keys.DECISION_TTL_SECONDS))

    async def answered(self, approval_id: str) -> bool:
        return bool(await self._redis.exists(keys.decision(approval_id)))

    async def drop(self, approval_id: str) -> None:
        """The chat knows how it ended."""
        await self._redis.hdel(keys.OPEN, approval_id)

    def _warn(self, name: str, what: str, error: Exception) -> None:
        if name not in self._warned:
            self._warned.add(name)
            log.error(what, approval=name, reason=str(error))


async def ask_at_terminal(redis: Redis, secret: str, task_id: str, ask: Callable[[str], bool | None]) -> None:
    """Have what is asked for this task allowed or denied by who looks at the terminal."""
    questions = ToolQuestions(redis, secret)
    for approval_id, asked in (await questions.questions()).items():
        if asked.task_id == task_id and not asked.verdict and not await questions.answered(approval_id):
            allowed = ask(f"Claude wants to use {asked.tool}:\n{asked.text}")
            verdict: Verdict = "allowed" if allowed else "denied"
            await questions.answer(approval_id, ToolDecision(verdict, asked.chat_id, "cli", "the terminal"))
