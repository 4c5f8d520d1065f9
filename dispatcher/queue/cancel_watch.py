"""Whether the running tasks are still wanted: one look at all of them, every few tenths of a second.

There are three ways for a bot to end a running task: ours sets a key; h-cli's writes its own result at /cancel and removes it again after showing
it, up to a second later, so that a look may miss it; and a bot that no longer waits removes the id from `hcli:pending:<chat>`. h-cli's bot does that
at /cancel and at its time limit, and the list expires some time after a bot has died. It only counts for a bot that has put the id there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from redis import ResponseError
from redis.asyncio import Redis

from dispatcher.queue.cancellation import Run
from shared.turns.signed.results import RESULT_BYTES
from shared.wire import keys

#: Commands for each task, in one pipeline.
_COMMANDS = 3


@dataclass(frozen=True)
class Look:
    """What was seen of one task. `pending` is None if the list cannot be read; `existing` is b"" for no result, or one that is too large."""

    cancelled: bool
    pending: bool | None
    existing: bytes


async def look_at(redis: Redis, runs: Sequence[Run]) -> list[Look]:
    """A look at each of these runs, whose tasks have been read."""
    async with redis.pipeline(transaction=False) as pipe:
        for run in runs:
            pipe.exists(keys.cancel(run.task_id))
            pipe.strlen(keys.result(run.task_id))
            pipe.lpos(keys.pending(run.chat_id), run.task_id)
        answers = await pipe.execute(raise_on_error=False)
    cancels, sizes, places = (answers[first::_COMMANDS] for first in range(_COMMANDS))
    with_result = [run.task_id for run, size in zip(runs, sizes, strict=True) if _may_be_a_result(size)]
    raws = cast(list[bytes | None], await redis.mget([keys.result(one) for one in with_result]) if with_result else [])
    existing = dict(zip(with_result, raws, strict=True))
    return [
        Look(
            cancelled == 1,
            None if isinstance(place, ResponseError) else place is not None,
            existing.get(run.task_id) or b"",
        )
        for run, cancelled, place in zip(runs, cancels, places, strict=True)
    ]


def _may_be_a_result(size: object) -> bool:
    """Judged by its length; for a key of another type `size` is an error."""
    return isinstance(size, int) and 0 < size <= RESULT_BYTES
