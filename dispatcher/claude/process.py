"""One run of a program: bytes in, bytes out, and nothing of it left behind.

The program leads a process group of its own, which gets TERM and then KILL when the time is up or the caller is cancelled; whatever it started is
killed when it ends. Its own end counts, not that of its pipes: a grandchild outside the group may hold them open for ever, and `Process.wait` of
asyncio waits for that. Hence a protocol, which is also cheaper than streams: no task and no buffer per pipe.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

#: Seconds between asking the process group to end and killing it, and as many for the kernel to hand over its end.
KILL_GRACE_SECONDS = 5.0
#: Seconds for which the pipes of a program that has ended may stay open: then what was read is all.
PIPE_GRACE_SECONDS = 1.0


class OutputTooLarge(Exception):
    """The program printed more than it may; it has been killed."""


@dataclass(frozen=True)
class Ended:
    """What a program left; a negative exit code is the signal that ended it."""

    exit_code: int
    output: bytes
    errors: bytes


async def run(
    arguments: Sequence[str],
    message: bytes,
    *,
    directory: Path,
    environment: Mapping[str, str],
    seconds: float,
    most_bytes: int,
) -> Ended:
    """Run it to its end. OSError if it cannot be started, TimeoutError, OutputTooLarge; in any case nothing of it runs on."""
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Child(loop, most_bytes),
            *arguments,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    )
    try:
        transport, child = await asyncio.shield(starting)
    except asyncio.CancelledError:  # asyncio itself would kill a program that it has half started, without TERM
        with suppress(OSError):
            _, child = await starting
            await child.end()
        raise
    try:
        async with asyncio.timeout(seconds):
            child.feed(message)
            await child.over.wait()
    finally:
        await child.end()
    if child.too_large:
        raise OutputTooLarge
    return Ended(transport.get_returncode() or 0, bytes(child.printed[1]), bytes(child.printed[2]))


class _Child(asyncio.SubprocessProtocol):
    """`over` is set when the program has ended and its pipes are read to the end, or when it printed too much."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int) -> None:
        self._loop, self._most_bytes = loop, most_bytes
        self.printed = {1: bytearray(), 2: bytearray()}
        self.too_large = False
        self.over, self._exited = asyncio.Event(), asyncio.Event()
        self._reading = set(self.printed)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def feed(self, message: bytes) -> None:
        """Hand the message over; a program that does not read it leaves it unread, one that has ended says why on stderr."""
        stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        stdin.write(message)
        stdin.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed[fd] += data
        if len(self.printed[fd]) > self._most_bytes:
            self.too_large = True
            cast(asyncio.ReadTransport, self._transport.get_pipe_transport(fd)).pause_reading()
            self.over.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - the library's signature
        self._reading.discard(fd)
        self._look()

    def process_exited(self) -> None:
        self._exited.set()
        self._signal(signal.SIGKILL)  # what it started and left behind
        self._patience = self._loop.call_later(PIPE_GRACE_SECONDS, self.over.set)
        self._look()

    def _look(self) -> None:
        if self._exited.is_set() and not self._reading:
            self.over.set()

    async def end(self) -> None:
        """Have all of it end; a second cancellation in the middle of this skips the grace, not the kill."""
        try:
            if not self._exited.is_set():
                self._signal(signal.SIGTERM)
                await self._until_exit()
        finally:
            if not self._exited.is_set():
                self._signal(signal.SIGKILL)
            self._transport.close()
        await self._until_exit()
        if self._patience:
            self._patience.cancel()

    async def _until_exit(self) -> None:
        if self._exited.is_set():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_GRACE_SECONDS):
                await self._exited.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), number)
