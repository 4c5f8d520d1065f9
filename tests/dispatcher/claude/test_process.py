"""One run of a program: whatever it does, it ends, and nothing of it is left: no process, no zombie, no pipe."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dispatcher.claude import process as claude_process
from dispatcher.claude.process import Ended, OutputTooLarge, run
from tests.support.machine import gone, slowness, until_gone, wait_for

MEGABYTE = 1 << 20
Value = TypeVar("Value")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_process, "KILL_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(claude_process, "PIPE_GRACE_SECONDS", 0.3)


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No child, alive or dead, and no descriptor more than before."""
    before = _children(), _descriptors()
    yield
    wait_for(lambda: _children() == before[0], "the last child")
    wait_for(lambda: _descriptors() == before[1], "the last descriptor to be closed")


def _children() -> set[str]:
    """Alive or dead, of any thread; those of fixtures among them."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found.update((task / "children").read_text().split())
    return found


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def script(folder: Path, body: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
    return str(path)


def ran(folder: Path, body: str, message: bytes = b"", seconds: float = 20.0, most_bytes: int = MEGABYTE) -> Ended:
    return asyncio.run(settled(started(folder, body, message, seconds, most_bytes)))


async def settled(call: Coroutine[Any, Any, Value]) -> Value:
    """Its value, when the loop has closed all that it opened, and seen every child's end: as no dispatcher's does, it would end before."""
    descriptors, children = _descriptors(), _children()
    try:
        return await call
    finally:
        while _descriptors() > descriptors or not _children() <= children:
            await asyncio.sleep(0.02)


async def started(
    folder: Path, body: str, message: bytes = b"", seconds: float = 20.0, most_bytes: int = MEGABYTE
) -> Ended:
    environment = {"PATH": os.environ["PATH"]}
    program = script(folder, body)
    return await run(
        [program], message, directory=folder, environment=environment, seconds=seconds, most_bytes=most_bytes
    )


def ids(path: Path, count: int) -> list[int]:
    """The process ids that the program wrote down, when it has."""
    wait_for(lambda: path.exists() and len(path.read_text().split()) == count, "the program's processes")
    return [int(word) for word in path.read_text().split()]


#: A program that ignores TERM, with a child and a grandchild that do so too; all of them hold the pipes.
STUBBORN = """trap '' TERM; echo $$ >> ids
(trap '' TERM; echo $BASHPID >> ids; (trap '' TERM; echo $BASHPID >> ids; while :; do sleep 1; done) & while :; do sleep 1; done) &
while :; do sleep 1; done"""


@pytest.mark.usefixtures("nothing_left")
def test_both_outputs_and_the_message_go_through_whole(tmp_path: Path) -> None:
    ended = ran(tmp_path, "head -c 300000 /dev/zero >&2; cat; exit 7", b"x" * (MEGABYTE // 2))
    assert (ended.exit_code, len(ended.output), len(ended.errors)) == (7, MEGABYTE // 2, 300_000)
    for body in ("echo answered", "exec <&-; sleep 0.2; echo answered"):  # which read none of the message
        assert ran(tmp_path, body, b"x" * MEGABYTE).output == b"answered\n"
    assert ran(tmp_path, "kill -SEGV $$").exit_code == -signal.SIGSEGV, "a signal is told from an exit"


@pytest.mark.usefixtures("nothing_left")
def test_too_much_output_is_cut_off_while_it_is_still_written(tmp_path: Path) -> None:
    with pytest.raises(OutputTooLarge):
        ran(tmp_path, "echo $$ > ids; (echo $BASHPID >> ids; exec cat /dev/zero) & wait")
    with pytest.raises(OutputTooLarge):
        ran(tmp_path, "exec cat /dev/zero >&2")
    for process in ids(tmp_path / "ids", 2):
        until_gone(process)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_out_of_time_ends_all_of_it_whether_it_heeds_term_or_not(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        ran(tmp_path, STUBBORN, b"x" * MEGABYTE, seconds=slowness())
    for process in ids(tmp_path / "ids", 3):
        until_gone(process)


def cancelled(folder: Path, body: str, processes: int, times: int = 1) -> list[int]:
    """Cancel the call so many times when its processes run; their ids."""

    async def cancel() -> list[int]:
        task = asyncio.create_task(started(folder, body, b"x" * MEGABYTE))
        found = await asyncio.to_thread(ids, folder / "ids", processes)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        return found

    return asyncio.run(settled(cancel()))


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("times", [1, 2])
def test_a_cancelled_call_takes_its_grandchildren_along(tmp_path: Path, times: int) -> None:
    """Also if it is cancelled once more while it waits for them to heed TERM."""
    for process in cancelled(tmp_path, STUBBORN, 3, times):
        until_gone(process)


@pytest.fixture
def escaped(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """The id of a process that has left the group; it is ended with the test."""
    path = tmp_path / "ids"
    yield lambda: ids(path, 1)[0]
    if path.exists():
        os.kill(ids(path, 1)[0], signal.SIGKILL)


#: A daemon in a session of its own that keeps the pipes of the program that started it.
DAEMON = "setsid bash -c 'echo $$ > ids; exec sleep 600' &\nwhile ! [ -s ids ]; do sleep 0.02; done\n"


def test_a_daemon_that_holds_the_pipes_does_not_hold_the_answer(tmp_path: Path, escaped: Callable[[], int]) -> None:
    assert ran(tmp_path, f"{DAEMON} echo answered").output == b"answered\n"
    assert not gone(escaped())


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    async def attempt(directory: Path) -> None:
        await run(["/no/such"], b"", directory=directory, environment={}, seconds=1, most_bytes=1)

    with pytest.raises(FileNotFoundError):
        asyncio.run(attempt(tmp_path))
    with pytest.raises(FileNotFoundError):
        asyncio.run(attempt(tmp_path / "gone"))


def sleeping(folder: Path, **more: Any) -> asyncio.Future[Ended]:
    """A run that lasts longer than its test."""
    how: dict[str, Any] = {"directory": folder, "environment": {}, "seconds": 60, "most_bytes": 99}
    return asyncio.ensure_future(run(["/bin/sleep", "60"], b"", **how, **more))


@pytest.mark.usefixtures("nothing_left")
def test_a_program_whose_start_is_cancelled_twice_is_ended(tmp_path: Path) -> None:
    """The second time while its start is still being waited for."""

    def slowly(arguments: list[str], **how: Any) -> subprocess.Popen[bytes]:
        time.sleep(0.3)
        return subprocess.Popen(arguments, **how)

    async def cancel() -> None:
        running = sleeping(tmp_path, start=slowly)
        for _ in range(2):
            await asyncio.sleep(0.05)
            running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())


@pytest.mark.usefixtures("nothing_left")
def test_starts_that_are_cancelled_twice_at_any_moment_leave_nothing(tmp_path: Path) -> None:
    moments = random.Random(4)

    async def cancelled() -> None:
        running = sleeping(tmp_path)
        for _ in range(2):
            await asyncio.sleep(moments.random() * 0.01)
            running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    async def many() -> None:
        for _ in range(20):
            await asyncio.gather(*(cancelled() for _ in range(8)))
        await asyncio.sleep(0.2)

    asyncio.run(many())
