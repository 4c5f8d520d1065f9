"""One run of a program: bytes in, bytes out, and no process left behind.

The program leads a new process group, which gets TERM and then KILL when the time is up or the caller is cancelled; everything it started is killed
when it ends. The run ends with the program, not with its pipes: a grandchild outside the group may keep them open indefinitely, and asyncio's
`Process.wait` waits for that. So it uses a protocol, which is also cheaper than streams: no task and no buffer for each pipe.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

#: Is given each complete line of a program's output, without its end, and says whether the line is part of the result.
LineReader = Callable[[bytes], bool]

#: Seconds between TERM and KILL for the process group, and as many for the kernel to report its end.
KILL_GRACE_SECONDS = 5.0
#: Seconds for which the pipes of an ended program may stay open; after that its output is complete.
PIPE_GRACE_SECONDS = 1.0


class OutputTooLarge(Exception):
    """The program printed too much, and has been killed."""


@dataclass(frozen=True)
class Ended:
    """The result of a program; a negative exit code is the signal that ended it."""

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
    on_line: LineReader | None = None,
) -> Ended:
    """Run a program to its end. OSError if it cannot be started, TimeoutError, OutputTooLarge; in any case none of its processes is left.

    `on_line` sees each line of the output while the program runs, and decides which ones the result holds; only those count for `most_bytes`.
    """
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: _Child(loop, most_bytes, on_line),
            *arguments,
            cwd=directory,
            env=environment,
            start_new_session=True,
        )
    )
    try:
        transport, child = await asyncio.shield(starting)
    except asyncio.CancelledError:  # asyncio itself would kill a program during its start, without TERM
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
    """`over` is set when the program has ended and its pipes are read, or when it printed too much."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int, on_line: LineReader | None) -> None:
        self._loop, self._most_bytes, self._on_line = loop, most_bytes, on_line
        self.printed = {1: bytearray(), 2: bytearray()}
        self._read_up_to = 0  # lines of the output before this were given to on_line
        self.too_large = False
        self.over, self._exited = asyncio.Event(), asyncio.Event()
        self._reading = set(self.printed)
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def feed(self, message: bytes) -> None:
        """Write the message; a program may leave it unread, and one that has ended reports why on stderr."""
        stdin = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        stdin.write(message)
        stdin.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed[fd] += data
        if fd == 1 and self._on_line is not None and b"\n" in data:
            self._read_lines(self._on_line)
        if len(self.printed[fd]) > self._most_bytes:
            self.too_large = True
            cast(asyncio.ReadTransport, self._transport.get_pipe_transport(fd)).pause_reading()
            self.over.set()

    def _read_lines(self, on_line: LineReader) -> None:
        """Give the new lines to their reader, and drop those that it does not keep."""
        output = self.printed[1]
        *lines, rest = bytes(output[self._read_up_to :]).split(b"\n")
        kept = b"".join(line + b"\n" for line in lines if on_line(line))
        output[self._read_up_to :] = kept + rest
        self._read_up_to += len(kept)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - the library's signature
        self._reading.discard(fd)
        self._look()

    def process_exited(self) -> None:
        self._exited.set()
        self._signal(signal.SIGKILL)  # processes that it left behind
        self._patience = self._loop.call_later(PIPE_GRACE_SECONDS, self.over.set)
        self._look()

    def _look(self) -> None:
        if self._exited.is_set() and not self._reading:
            self.over.set()

    async def end(self) -> None:
        """End all of its processes; another cancellation meanwhile skips the grace period, but not the kill."""
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
