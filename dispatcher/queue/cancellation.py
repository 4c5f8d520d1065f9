"""One task that is being answered and can still be cancelled, while Claude runs and not afterwards; and whether the running tasks are still wanted.

There are three ways for a bot to end a running task: ours sets a key; h-cli's writes its own result at /cancel and removes it again after showing
it, up to a second later, so that a look may miss it; and a bot that no longer waits removes the id from `hcli:pending:<chat>`. h-cli's bot does that
at /cancel and at its time limit, and the list expires some time after a bot has died. It only counts for a bot that has put the id there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis import ResponseError
from redis.asyncio import Redis

from shared.turns.signed import RESULT_BYTES
from shared.wire import keys

Value = TypeVar("Value")


class RunCancelled(Exception):
    """The chat no longer wants an answer to this task."""


class Run:
    """`task_id` and `chat_id` are "" until the task has been read; `forged` is the SHA-1 of an existing result without a valid signature."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.task_id = self.chat_id = ""
        self.forged = ""
        self.awaited = False  # its bot has added its id to the ones it waits for
        self.abandoned = False  # and has removed it, without a cancellation that we have seen
        self.cancelled = False
        self._asking: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """End the current or the next call in `while_wanted`; no effect once that has ended."""
        self.cancelled = True
        if self._asking is not None:
            self._asking.cancel()

    def seen_pending(self, pending: bool) -> None:
        """Whether its bot waits for it. A bot that waited and no longer does has cancelled it."""
        if pending:
            self.awaited = True
        elif self.awaited:
            self.abandoned = True
            self.cancel()

    async def while_wanted(self, call: Coroutine[Any, Any, Value]) -> Value:
        """The value of the call; RunCancelled if the task is cancelled before."""
        if self.cancelled:
            call.close()
            raise RunCancelled
        asking: asyncio.Task[Value] = asyncio.create_task(call)
        self._asking = asking
        try:
            return await asking
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():  # a stop: the task goes back to the queue
                raise
            raise RunCancelled from None
        finally:
            self._asking = None


async def end_unwanted(redis: Redis, runs: Sequence[Run], judge: Callable[[Run, bytes], None]) -> None:
    """End the runs whose bot has cancelled them or no longer waits for them; `judge` is given the results that exist. Their tasks have been read."""
    async with redis.pipeline(transaction=False) as pipe:
        for run in runs:
            pipe.exists(keys.cancel(run.task_id))
            pipe.getrange(keys.result(run.task_id), 0, RESULT_BYTES)
            pipe.lpos(keys.pending(run.chat_id), run.task_id)
        answers = await pipe.execute(raise_on_error=False)
    for run, cancelled, existing, place in zip(runs, answers[::3], answers[1::3], answers[2::3], strict=True):
        if cancelled == 1:
            run.cancel()
        elif isinstance(existing, bytes) and 0 < len(existing) <= RESULT_BYTES:  # an error for a key of another type
            judge(run, existing)
        if not run.cancelled and not isinstance(place, ResponseError):
            run.seen_pending(place is not None)
