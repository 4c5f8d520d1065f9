"""One task that is being answered and can still be cancelled: while Claude runs, and not afterwards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


class RunCancelled(Exception):
    """The chat no longer wants an answer to this task."""


class Run:
    """`task_id` and `chat_id` are "" until the task has been read; `forged` is the SHA-1 of an existing result without a valid signature."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.task_id = self.chat_id = ""
        self.forged = ""
        self.awaited = False  # its bot has added its id to those that it waits for
        self.abandoned = False  # and has removed it, without a cancellation that we have seen
        self._cancelled = False
        self._asking: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """End the current or the next call in `while_wanted`; no effect once that has ended."""
        self._cancelled = True
        if self._asking is not None:
            self._asking.cancel()

    def seen_pending(self, pending: bool | None) -> None:
        """Whether its bot waits for it (None: unknown). A bot that waited and no longer does has cancelled it."""
        if pending:
            self.awaited = True
        elif self.awaited and pending is False:
            self.abandoned = True
            self.cancel()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    async def while_wanted(self, call: Coroutine[Any, Any, Value]) -> Value:
        """The value of the call; RunCancelled if the task is cancelled before."""
        if self._cancelled:
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
