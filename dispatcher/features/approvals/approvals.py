"""Questions in the chat whether Claude may use a tool (APPROVE_TOOLS), on the dispatcher's side.

    asked (a signed field for the bot) ─ answered by the bot, or by us when the time is up ─ recorded ─ the tool runs, or not

The first decision under the question's key counts, whoever writes it, so what the chat is shown in the end is what happened. A tool runs only if a
person allowed it and that is recorded; without Redis, with a key that has another value, and after a stop it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from dispatcher.answering.turn import ForClaude, TurnInProgress
from dispatcher.features.approvals import keys
from dispatcher.features.approvals.questions import (
    TOOL_CHARACTERS,
    ToolDecision,
    ToolQuestion,
    Verdict,
    kept_input,
    shown_input,
)
from dispatcher.features.approvals.server import APPROVER, Decide, approval_server
from shared.config.settings import Settings
from shared.config.tools import ChatTools
from shared.errors import HmemError
from shared.hooks import hook
from shared.system.waiting import set_within
from shared.text.format import cut
from shared.text.logs import Logger
from shared.turns.records import RecordRefused, Task, dumps, well_formed
from shared.turns.signed import signing_key

log = Logger()

#: Seconds between two looks for an answer, and that one call of Redis may take.
LOOK_SECONDS, REDIS_SECONDS = 0.25, 5.0
#: Seconds that a question waits for an answer (TASK_TIMEOUT goes on); then the tool is denied.
WAIT_SECONDS = 120.0
#: Questions of one answer; more are refused without one.
MOST_QUESTIONS = 20

NOT_LISTED = "{tool} may not be used in this way here, and nobody is asked about it."
TOO_MANY = "The person was asked too often during this answer, so {tool} was not run. Say what you still wanted to do."
TOO_LONG = "The input of {tool} is too long for the person to see it whole, so it was not run. Say so, and use shorter inputs, one step at a time."
NO_PERSON = "There is nobody here who could allow {tool}, so it was not run."
TOLD: dict[Verdict, str] = {
    "denied": "The person was asked and did not allow this use of {tool}, so it was not run. Do not try to reach the same in another way.",
    "nobody": "Nobody answered within {seconds:g} seconds whether {tool} may be used, so it was not run. Say so, and that they can ask again.",
    "stopped": "The program is being stopped, so nobody could be asked whether {tool} may be used, and it was not run.",
    "failed": "It was not possible to ask whether {tool} may be used, so it was not run. Say that something is wrong with the questions.",
}


class Approvals:
    """One per dispatcher."""

    def __init__(self, settings: Settings, redis: Redis) -> None:
        self.redis, self._owners = redis, settings.owner_ids
        self.secret = signing_key(settings, "no question about a tool could be signed")
        self.stopping = asyncio.Event()

    @hook
    def dispatcher_stopping(self) -> None:
        """All that is being asked is denied, and so is all that would be asked."""
        self.stopping.set()

    def of(self, task: Task, tools: ChatTools) -> Decide:
        """What decides about the tools of this answer."""
        asked = 0

        async def decide(tool: str, given: dict[str, Any]) -> str:
            nonlocal asked
            if not tools.asks_for(tool):
                return NOT_LISTED.format(tool=tool)
            asked += 1
            if asked > MOST_QUESTIONS:
                log.warning("a tool is denied: too many questions for one answer", tool=tool)
                return TOO_MANY.format(tool=tool)
            if not (task.user_id or self._owners or not task.in_group):
                return NO_PERSON.format(tool=tool)
            if (shown := shown_input(given)) is None:
                await _Asking(self, task, tool, given, "").denied()
                return TOO_LONG.format(tool=tool)
            verdict = await _Asking(self, task, tool, given, shown).verdict()
            return "" if verdict == "allowed" else TOLD[verdict].format(tool=tool, seconds=WAIT_SECONDS)

        return decide

    @hook
    @asynccontextmanager
    async def beside_claude(self, turn: TurnInProgress, tools: ChatTools, folder: Path) -> AsyncIterator[ForClaude]:
        if not tools.asked:
            yield ForClaude()
            return
        async with AsyncExitStack() as stack:
            beside = ForClaude()
            try:
                config = await stack.enter_async_context(approval_server(self.of(turn.asked, tools), folder))
                beside = ForClaude((config,), approver=APPROVER)
            except (HmemError, OSError) as error:
                log.error("answering without the tools that are asked for", reason=str(error))
            yield beside


class _Asking:
    """One question, from its asking to its record."""

    def __init__(self, approvals: Approvals, task: Task, tool: str, given: dict[str, Any], shown: str) -> None:
        self._approvals, self._redis, self._secret, self._given = approvals, approvals.redis, approvals.secret, given
        self._id, name = secrets.token_hex(10), cut(well_formed(tool), TOOL_CHARACTERS)
        ends = time.time() + WAIT_SECONDS
        self._question = ToolQuestion(task.chat_id, task.user_id or "", task.task_id, name, shown, ends)
        self._key = keys.decision(self._id)

    async def verdict(self) -> Verdict:
        try:
            async with asyncio.timeout(REDIS_SECONDS):
                await self._put(self._question)
            return await self._end(await self._wait())
        except asyncio.CancelledError:  # the answer is cancelled, or its process has ended
            with contextlib.suppress(RedisError, OSError):
                await asyncio.shield(self._end("stopped"))
            raise
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            log.error("a tool is denied: the question failed", reason=str(error) or type(error).__name__)
            return "failed"

    async def denied(self) -> None:
        """Without a question: it could not be asked. Only the record says so."""
        with contextlib.suppress(RedisError, OSError):  # it stays denied
            await self._end("failed")

    async def _wait(self) -> Verdict | ToolDecision:
        """The decision, or why there is none."""
        stopping = self._approvals.stopping
        while not stopping.is_set():
            with contextlib.suppress(RedisError, TimeoutError):
                async with asyncio.timeout(REDIS_SECONDS):
                    if found := await self._decision():
                        return found
            left = self._question.ends - time.time()
            if left <= 0:
                return "nobody"
            await set_within(stopping, min(LOOK_SECONDS, left))
        return "stopped"

    async def _end(self, found: Verdict | ToolDecision) -> Verdict:
        """Decided, unless somebody has decided just before, and recorded."""
        async with asyncio.timeout(REDIS_SECONDS):
            decision = found if isinstance(found, ToolDecision) else ToolDecision(found, self._question.chat_id)
            raw = decision.to_json(self._secret, self._id)
            if decision is not found and not await self._redis.set(
                self._key, raw, nx=True, ex=keys.DECISION_TTL_SECONDS
            ):
                decision = await self._decision() or decision
            ended = replace(self._question, verdict=decision.verdict, who=decision.name)
            await self._put(ended, self._record(decision))
        return decision.verdict

    async def _put(self, question: ToolQuestion, *records: bytes) -> None:
        """What the bot reads, and with its end the record, in one transaction."""
        async with self._redis.pipeline(transaction=True) as pipe:
            for record in records:
                pipe.rpush(keys.RECORDS, record)
                pipe.ltrim(keys.RECORDS, -keys.RECORDS_LENGTH, -1)
            pipe.hset(keys.OPEN, self._id, cast(Any, question.to_json(self._secret, self._id)))
            pipe.expire(keys.OPEN, keys.OPEN_TTL_SECONDS)
            await pipe.execute()

    def _record(self, decision: ToolDecision) -> bytes:
        digest, short = kept_input(self._given)
        asked = {name: getattr(self._question, name) for name in ("chat_id", "user_id", "task_id", "tool")}
        decided = {"decision": decision.verdict, "by": decision.user_id, "name": decision.name}
        return dumps({"at": time.time(), "id": self._id} | asked | {"input_sha256": digest, "input": short} | decided)

    async def _decision(self) -> ToolDecision | None:
        raw = cast(bytes | None, await self._redis.get(self._key))
        try:
            found = ToolDecision.verified(self._secret, self._id, raw) if raw else None
        except RecordRefused as error:
            log.error(
                "an answer about a tool is not signed by the bot and is ignored", approval=self._id, reason=str(error)
            )
            return None
        return found if found and found.chat_id == self._question.chat_id else None
