"""The answers to a bot's tasks: what Redis has of them (what is written of one so far, and the signed result), and how the former is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from redis import ResponseError
from redis.asyncio import Redis

from shared.text.logs import Logger
from shared.text.translations import later, tr
from shared.turns.records import RecordRefused
from shared.turns.signed import PARTIAL_BYTES, RESULT_BYTES, PartialAnswer, Result
from shared.wire import keys

log = Logger()

PLACEHOLDER = "…"
THINKING = later("Thinking…")
USING = later("Using {tool}…")
RETRYING = later("Claude cannot be reached; trying again…")


class Answers:
    """One per bot. What the dispatcher has not signed is ignored, and logged once."""

    def __init__(self, redis: Redis, secret: str) -> None:
        self._redis, self._secret = redis, secret
        self._junk = set[str]()  # tasks whose unsigned answer was logged
        self._partials: dict[str, tuple[bytes, PartialAnswer | None]] = {}  # as they were at the last look

    async def results(self, task_ids: list[str]) -> tuple[dict[str, bytes], dict[str, str]]:
        """The signed results; and of the tasks whose key has something else, what is wrong with that."""
        results, junk = dict[str, bytes](), dict[str, str]()
        for one, raw in zip(task_ids, await self._fetched(map(keys.result, task_ids), RESULT_BYTES), strict=True):
            try:
                if isinstance(raw, ResponseError):
                    raise RecordRefused("a key of another type")
                if raw:
                    Result.verified(self._secret, one, raw)
                    results[one] = raw
            except RecordRefused as error:
                junk[one] = str(error)
                self._log_junk(one, str(error))
        return results, junk

    async def partials(self, task_ids: list[str]) -> dict[str, PartialAnswer]:
        """What is written of these answers."""
        before, self._partials = self._partials, {}
        for one, raw in zip(task_ids, await self._fetched(map(keys.partial, task_ids), PARTIAL_BYTES), strict=True):
            if isinstance(raw, bytes) and raw:
                known = before.get(one)
                self._partials[one] = known if known and known[0] == raw else (raw, self._partial(one, raw))
        return {one: partial for one, (_, partial) in self._partials.items() if partial}

    async def _fetched(self, names: Iterable[str], most: int) -> list[bytes | ResponseError]:
        """Their values, b"" for none, the error for a key of another type. Of one that is too large, whatever it is, one byte too much."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.getrange(name, 0, most)
            found = await pipe.execute(raise_on_error=False) if pipe.command_stack else []
        for one in found:
            if isinstance(one, Exception) and not str(one).startswith("WRONGTYPE"):
                raise one
        return cast(list[bytes | ResponseError], found)

    def _partial(self, task_id: str, raw: bytes) -> PartialAnswer | None:
        try:
            return PartialAnswer.verified(self._secret, task_id, raw)
        except RecordRefused as error:
            self._log_junk(task_id, str(error))
            return None

    def _log_junk(self, task_id: str, reason: str) -> None:
        if task_id not in self._junk:
            self._junk.add(task_id)
            log.error("an answer is not signed by the dispatcher and is ignored", task=task_id, reason=reason)


def shown_now(partial: PartialAnswer) -> tuple[str, str]:
    """(text, line about what is being done)."""
    if partial.doing == "tool":
        server, _, tool = partial.tool.removeprefix("mcp__").rpartition("__")
        name = " ".join(f"{server}: {tool}".split() if server else tool.split())
        return partial.text, tr(USING).format(tool=name) if name else tr("Using a tool…")
    if partial.doing == "retrying":
        return partial.text, tr(RETRYING)
    if partial.text.strip():
        return partial.text, ""
    return "", tr(THINKING) if partial.doing == "thinking" else PLACEHOLDER
