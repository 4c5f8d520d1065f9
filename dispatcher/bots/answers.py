"""The answers to a bot's tasks, as Redis has them: what is written of one so far, and the signed result."""

from __future__ import annotations

from typing import cast

import structlog
from redis import ResponseError
from redis.asyncio import Redis

from shared.turns.records import RecordRefused
from shared.turns.signed import PARTIAL_BYTES, RESULT_BYTES, Result
from shared.wire import keys

log = structlog.get_logger()


class Answers:
    """One per bot. What the dispatcher has not signed is ignored, and logged once."""

    def __init__(self, redis: Redis, secret: str) -> None:
        self._redis, self._secret = redis, secret
        self._junk = set[str]()  # tasks whose unsigned result was logged

    async def results(self, task_ids: list[str]) -> tuple[dict[str, bytes], dict[str, str]]:
        """The signed results; and of the tasks whose key has something else, what is wrong with that. It is not fetched if it is too large."""
        results, junk = dict[str, bytes](), dict[str, str]()
        async with self._redis.pipeline(transaction=False) as pipe:
            for one in task_ids:
                pipe.strlen(keys.result(one))
            sizes = await pipe.execute(raise_on_error=False) if task_ids else []
        for one, size in zip(task_ids, sizes, strict=True):
            if size == 0:
                continue
            try:
                if raw := await self._result(one, size):
                    results[one] = raw
            except RecordRefused as error:
                junk[one] = str(error)
                self._log_junk(one, str(error))
        return results, junk

    async def _result(self, task_id: str, size: object) -> bytes | None:
        """RecordRefused for a value that is not signed for this task."""
        if isinstance(size, ResponseError):
            if not str(size).startswith("WRONGTYPE"):
                raise size
            raise RecordRefused("a key of another type")
        if isinstance(size, int) and size > RESULT_BYTES:
            raise RecordRefused(f"{size} bytes are more than an answer can have")
        raw = cast(bytes | None, await self._redis.get(keys.result(task_id)))
        if raw:
            Result.verified(self._secret, task_id, raw)
        return raw

    async def partials(self, task_ids: list[str]) -> dict[str, bytes]:
        """What is written of these answers, unverified: at most the size that one can have, whatever is stored there."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for one in task_ids:
                pipe.getrange(keys.partial(one), 0, PARTIAL_BYTES)
            found = await pipe.execute(raise_on_error=False) if task_ids else []
        return {one: raw for one, raw in zip(task_ids, found, strict=True) if isinstance(raw, bytes) and raw}

    def _log_junk(self, task_id: str, reason: str) -> None:
        if task_id not in self._junk:
            self._junk.add(task_id)
            log.error("a result is not signed by the dispatcher and is ignored", task=task_id, reason=reason)
