"""One run of a program: bytes in, bytes out, and no process left behind.

The program leads a new process group, which gets TERM and then KILL when the time is up or the caller is cancelled; everything it started is killed
when it ends. The run ends with the program, not with its pipes: a grandchild outside the group may keep them open indefinitely, and asyncio's
`Process.wait` waits for that. asyncio also starts programs in its own thread, where no sandbox can be put around them (landlock.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from typing import cast

from shared.system.processes import Start
from shared.system.waiting import set_within

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
    start: Start | None = None,
) -> Ended:
    """Run a program to its end. OSError if it cannot be started, TimeoutError, OutputTooLarge; in any case none of its processes is left: one whose
    start is cancelled is killed as soon as it is there.

    `on_line` sees each line of the output while the program runs, and decides which ones the result holds; only those count for `most_bytes`.
    `start` is called in another thread.
    """
    child = _Child(asyncio.get_running_loop(), most_bytes, on_line)
    popen: Start = start or subprocess.Popen
    where = {"cwd": directory, "env": environment, "start_new_session": True}
    await child.begin(partial(popen, arguments, stdin=PIPE, stdout=PIPE, stderr=PIPE, **where))
    try:
        async with asyncio.timeout(seconds):
            child.feed(message)
            await child.over.wait()
    finally:
        await child.end()
    if child.too_large:
        raise OutputTooLarge
    return Ended(child.process.returncode, bytes(child.printed[1]), bytes(child.printed[2]))


class _Child:
    """`over` is set when the program has ended and its pipes are read, or when it printed too much."""

    process: subprocess.Popen[bytes]

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int, on_line: LineReader | None) -> None:
        self._loop, self._most_bytes, self._on_line = loop, most_bytes, on_line
        self.printed = {1: bytearray(), 2: bytearray()}
        self._read_up_to = 0  # lines of the output before this were given to on_line
        self.too_large = False
        self.over, self._exited = asyncio.Event(), asyncio.Event()
        self._reading = set(self.printed)
        self._pipes = list[asyncio.BaseTransport]()
        self._patience: asyncio.TimerHandle | None = None

    async def begin(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        """A program whose start is cancelled, or whose pipes cannot be read, is killed as soon as it is there: it was given nothing yet."""
        started = self._loop.run_in_executor(None, start)
        try:
            self.process = await asyncio.shield(started)
            await self._connect()
        except BaseException:
            started.add_done_callback(_kill)
            self._close()
            raise

    async def _connect(self) -> None:
        Thread(target=self._wait, daemon=True).start()
        self._stdin, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, self.process.stdin)
        self._pipes.append(self._stdin)
        for number, pipe in ((1, self.process.stdout), (2, self.process.stderr)):
            transport, _ = await self._loop.connect_read_pipe(partial(_Reader, self, number), pipe)
            self._pipes.append(transport)

    def _wait(self) -> None:
        """In a thread of its own; the event loop takes the exit code, so that the number stays the program's until then."""
        try:
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # its start was given up, and it is killed and reaped (_kill)
            return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._has_exited)

    def feed(self, message: bytes) -> None:
        """Write the message; a program may leave it unread, and one that has ended reports why on stderr."""
        self._stdin.write(message)
        self._stdin.write_eof()

    def received(self, number: int, data: bytes, pipe: asyncio.ReadTransport) -> None:
        self.printed[number] += data
        if number == 1 and self._on_line is not None and b"\n" in data:
            self._read_lines(self._on_line)
        if len(self.printed[number]) > self._most_bytes:
            self.too_large = True
            pipe.pause_reading()
            self.over.set()

    def _read_lines(self, on_line: LineReader) -> None:
        """Give the new lines to their reader, and drop what it does not keep."""
        output = self.printed[1]
        *lines, rest = bytes(output[self._read_up_to :]).split(b"\n")
        kept = b"".join(line + b"\n" for line in lines if on_line(line))
        output[self._read_up_to :] = kept + rest
        self._read_up_to += len(kept)

    def closed(self, number: int) -> None:
        self._reading.discard(number)
        self._look()

    def _has_exited(self) -> None:
        self._exited.set()
        # Where its start was given up it is reaped (_kill), and its number may be another program's.
        if self.process.returncode is None:
            self._signal(signal.SIGKILL)  # processes that it left behind
        self.process.wait()
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
                await set_within(self._exited, KILL_GRACE_SECONDS)
        finally:
            if not self._exited.is_set():
                self._signal(signal.SIGKILL)
            self._close()
        await set_within(self._exited, KILL_GRACE_SECONDS)
        if self._patience:
            self._patience.cancel()

    def _close(self) -> None:
        for pipe in self._pipes:
            pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


def _kill(started: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    if not started.cancelled() and started.exception() is None:
        with started.result() as process, suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class _Reader(asyncio.Protocol):
    """Of one of its outputs."""

    def __init__(self, child: _Child, number: int) -> None:
        self._child, self._number = child, number

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe = cast(asyncio.ReadTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._child.received(self._number, data, self._pipe)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the library's signature
        self._child.closed(self._number)
