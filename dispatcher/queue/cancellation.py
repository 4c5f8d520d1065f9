"""One task that is being answered, as far as its end can still be asked for: while Claude is asked, and not after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


class RunCancelled(Exception):
    """The chat wants no answer to this task any more."""


class Run:
    """`task_id` and `chat_id` are "" until the task has been read; `forged` is the SHA-1 of a result that stands there and nobody has signed."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.task_id = self.chat_id = ""
        self.forged = ""
        self.awaited = False  # its bot has put its id among those that it waits for
        self.given_up = False  # and has taken it out, without a word that we have seen
        self._cancelled = False
        self._asking: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """End what is under way in `while_wanted`, or what will be; nothing once that is over."""
        self._cancelled = True
        if self._asking is not None:
            self._asking.cancel()

    def seen_pending(self, pending: bool | None) -> None:
        """Whether its bot waits for it (None: that cannot be told). One that waited and does not any more has ended it."""
        if pending:
            self.awaited = True
        elif self.awaited and pending is False:
            self.given_up = True
            self.cancel()

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    async def while_wanted(self, call: Coroutine[Any, Any, Value]) -> Value:
        """The value of the call; RunCancelled if its end is asked for before."""
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
