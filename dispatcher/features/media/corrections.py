"""What was misheard is corrected by a reply: the turn of the recording is written anew, under its id, with the words of the reply.

The bot knows which message is replied to and passes its task on as `corrects`. It counts only for a recording of the same chat and person that is
remembered (in Redis, else in the day store) and not forgotten. The new version goes to the day store and, by night, to the archive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import cast

from redis.asyncio import Redis

from dispatcher.answering.retry import keep_trying
from dispatcher.memory.day.memory import DayMemory
from dispatcher.prompt.render import fenced
from shared.errors import HmemError
from shared.turns.media import HEARD
from shared.turns.records import RecordRefused, Task, Tombstone, Turn
from shared.wire import keys

#: The field of a turn's record that says that its words are not those that were heard first.
CORRECTED = "corrected"


class Corrections:
    """One per dispatcher."""

    def __init__(self, client: Redis, day: DayMemory) -> None:
        self._redis, self._day = client, day

    async def of(self, task: Task, tombstones: Sequence[Tombstone]) -> Turn | None:
        """The turn that this message corrects, as it was."""
        if task.corrects is None or task.media or not task.message.strip():
            return None
        turn = await self._turn(task.chat_id, task.corrects)
        if turn is None or turn.chat_id != task.chat_id or turn.user_id != task.user_id or task.user_id is None:
            return None
        if not any(one.kind in HEARD for one in turn.media) or any(one.covers(turn) for one in tombstones):
            return None
        return turn

    async def _turn(self, chat_id: str, task_id: str) -> Turn | None:
        name = keys.turn(task_id, "user")
        raws = await keep_trying(lambda: cast(Awaitable[list[bytes | None]], self._redis.mget([name])))
        with suppress(RecordRefused):
            if raws[0] is not None:
                return Turn.parse(name.encode(), raws[0])
        if not self._day.wanted:
            return None
        with suppress(HmemError):
            found = await asyncio.to_thread(lambda: self._day.turns.named(chat_id, [f"{task_id}:user"]))
            return found[0].turn if found else None
        return None


def corrected(turn: Turn, text: str) -> Turn:
    """The turn with these words in the place of what was heard."""
    heard = [one for one in turn.media if one.kind in HEARD]
    media = [replace(one, text=text if one is heard[0] else "") if one in heard else one for one in turn.media]
    extra = turn.extra | {"media": [one.to_json() for one in media], CORRECTED: True}
    return replace(turn, content=text, extra=extra)


def header_line(turn: Turn) -> str:
    """For Claude: what had been heard instead."""
    return f"This corrects a recording of the sender. A program had understood:\n{fenced('transcript', turn.content)}"
