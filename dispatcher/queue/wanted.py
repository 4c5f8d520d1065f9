"""Whether the answers in the making are still wanted: one look at all of them, every few tenths of a second.

A bot has three ways to end a task that runs: ours sets a key; h-cli's writes a result of its own at /cancel, and takes it away again when it has
shown it, up to a second later, so that a look may miss it; and whoever waits no longer takes the id out of `hcli:pending:<chat>`. h-cli's bot does
that at /cancel and when its time is up, and the list lapses some time after a bot that died. Only a bot that has put the id there is judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from redis import ResponseError
from redis.asyncio import Redis

from dispatcher.queue.cancellation import Run
from shared.turns.records import RESULT_BYTES
from shared.wire import keys

#: Commands for each task, in one pipeline.
_COMMANDS = 3


@dataclass(frozen=True)
class Look:
    """What was seen of one task. `pending` is None where the list cannot be read; `existing`: b"" for none, or one that is too large."""

    cancelled: bool
    pending: bool | None
    existing: bytes


async def look_at(redis: Redis, runs: Sequence[Run]) -> list[Look]:
    """A look at each of these, whose tasks have been read."""
    async with redis.pipeline(transaction=False) as pipe:
        for run in runs:
            pipe.exists(keys.cancel(run.task_id))
            pipe.strlen(keys.result(run.task_id))
            pipe.lpos(keys.pending(run.chat_id), run.task_id)
        answers = await pipe.execute(raise_on_error=False)
    cancels, sizes, places = (answers[first::_COMMANDS] for first in range(_COMMANDS))
    there = [run.task_id for run, size in zip(runs, sizes, strict=True) if _may_be_a_result(size)]
    raws = cast(list[bytes | None], await redis.mget([keys.result(one) for one in there]) if there else [])
    existing = dict(zip(there, raws, strict=True))
    return [
        Look(
            cancelled == 1,
            None if isinstance(place, ResponseError) else place is not None,
            existing.get(run.task_id) or b"",
        )
        for run, cancelled, place in zip(runs, cancels, places, strict=True)
    ]


def _may_be_a_result(size: object) -> bool:
    """By its length; of a key of another type there is an error instead."""
    return isinstance(size, int) and 0 < size <= RESULT_BYTES
