"""This machine as tests use it: how long a thing may take on it, and ports that nobody else has."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from redis import Redis, RedisError

#: What the two parts of a measurement take on the machine for which the limits were set, when it has nothing else to do.
LOOP_SECONDS, PROCESS_SECONDS = 0.012, 0.004
#: No machine is taken to be faster than that one, nor slower by more than this.
SLOWEST = 20.0
#: Ports for servers of tests lie below those that the kernel gives to connections, in blocks of which each process owns one.
FIRST_PORT, BLOCK, BLOCKS = 15_000, 100, 150


def slowness() -> float:
    """How many times longer a thing takes now than it should: 1 on an idle machine, at most SLOWEST. The measurement takes some 30 ms."""
    started = time.perf_counter()
    sum(number * number for number in range(200_000))
    looped = time.perf_counter()
    for _ in range(3):
        subprocess.run(["/bin/true"], check=True)
    ended = time.perf_counter()
    measured = max((looped - started) / LOOP_SECONDS, (ended - looped) / 3 / PROCESS_SECONDS)
    return min(max(measured, 1.0), SLOWEST)


def wait_for(condition: Callable[[], object], what: str | Callable[[], str], seconds: float = 60.0) -> None:
    """Until the condition holds; fails the test when the time is up. A machine that turns out to be slow then has more of it."""
    started, limit = time.monotonic(), seconds
    while not condition():
        if time.monotonic() - started > limit:
            limit = max(limit, seconds * slowness())
            if time.monotonic() - started > limit:
                pytest.fail(f"waited {limit:g} s for {what if isinstance(what, str) else what()}")
        time.sleep(0.01)


def gone(process: int) -> bool:
    """Whether a process has ended; one that was not the test's own may wait for its reaper."""
    try:
        return "State:\tZ" in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def until_gone(process: int) -> None:
    """A signal that ends a process is sent before the kernel has ended it."""
    wait_for(lambda: gone(process), "the end of a process")


def hangs(request: pytest.FixtureRequest) -> bool:
    """Whether a server hangs in this test, by its parameter `fault`: only there limits are short."""
    case = getattr(request.node, "callspec", None)
    return case is not None and case.params.get("fault") == "hang"


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on, and that no other process of tests is given."""
    global _ports
    if _ports is None or _ports[0] != os.getpid():
        _ports = (os.getpid(), _own_ports())
    for port in _ports[1]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("the ports never end")


#: The process that owns the block, and its ports, again and again.
_ports: tuple[int, Iterator[int]] | None = None
#: Held as long as the process lives.
_locks: list[int] = []


def _own_ports() -> Iterator[int]:
    """The ports of a block that this process has locked."""
    folder = Path(tempfile.gettempdir(), f"hmem-test-ports-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    for block in range(BLOCKS):
        lock = os.open(folder / str(block), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        _locks.append(lock)
        first = FIRST_PORT + block * BLOCK
        return itertools.cycle(range(first, first + BLOCK))
    raise AssertionError(f"{BLOCKS} processes of tests hold all blocks of ports")


def answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except RedisError:
        return False


@contextmanager
def redis_server(
    folder: Path, *options: str, program: str = "redis-server"
) -> Iterator[tuple[subprocess.Popen[bytes], Redis, str]]:
    """A redis-server of its own with these options, its files in `folder`; its process, a client and its URL."""
    if shutil.which(program) is None:
        pytest.fail("redis-server is not installed. Run scripts/setup (or: apt-get install redis-server).")
    folder.mkdir(exist_ok=True)
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), *options]
    url = f"redis://127.0.0.1:{port}/0"
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL) as server,
        closing(Redis.from_url(url, socket_timeout=60)) as client,
    ):
        try:
            wait_for(lambda: answers(client), "redis-server to start")
            yield server, client, url
        finally:  # a test that failed would wait for it for ever
            server.kill()


def script(path: Path, text: str) -> Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path
