"""What the commands of a chat read and write in Redis beside the queue: explanations, a message that is asked again, what `/forget` has shown."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import cast

from redis.asyncio import Redis

from shared.turns.records import RecordRefused, Turn, dumps, loads_object
from shared.wire import keys


class ChatRecords:
    """One per dispatcher. Everything may be repeated."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def explanations(self, chat_id: str) -> dict[str, bytes]:
        """Task id → what was injected for its answer, as JSON; the newest answer first. Another program's values are left out."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for at in range(1, keys.WHY_LENGTH + 1):
                pipe.lindex(keys.why(chat_id), -at)
            raws = await pipe.execute(raise_on_error=False)
        found: dict[str, bytes] = {}
        for raw in raws:
            with suppress(RecordRefused):
                if isinstance(raw, bytes) and isinstance(task_id := loads_object(raw).get("task_id"), str):
                    found.setdefault(task_id, raw)
        return found

    async def question(self, chat_id: str, task_id: str) -> Turn | None:
        """The message of a task of this chat; None if Redis does not have it (any more)."""
        key = keys.turn(task_id, "user")
        (raw,) = cast(list[bytes | None], await self._redis.mget([key]))
        with suppress(RecordRefused):
            turn = Turn.parse(key.encode(), raw) if raw else None
            return turn if turn and turn.chat_id == chat_id else None
        return None

    async def keep_selection(self, digest: str, chat_id: str, record: dict[str, object]) -> None:
        await self._redis.set(keys.selection(digest, chat_id), dumps(record), ex=keys.SELECTION_TTL_SECONDS)

    async def selection(self, digest: str, chat_id: str) -> dict[str, object] | None:
        raw = cast(bytes | None, await self._redis.get(keys.selection(digest, chat_id)))
        with suppress(RecordRefused, json.JSONDecodeError):
            return loads_object(raw) if raw else None
        return None

    async def drop_selection(self, digest: str, chat_id: str) -> None:
        await self._redis.delete(keys.selection(digest, chat_id))
