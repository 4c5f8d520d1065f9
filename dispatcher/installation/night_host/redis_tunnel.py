"""Redis for the night host, through ssh: a socket there, and behind each connection to it one ssh whose forced command here leads to Redis.

Nothing is forwarded by sshd itself: `permitopen` can name a port, but not a socket, on which the Redis of one user is; without it the key would
reach every socket of its account, such as supervisor's.

`python -m dispatcher.installation.night_host.redis_tunnel listen SOCKET SSH_CONFIG` is the service on the night host, `… relay ADDRESS` the forced
command on the day host, where ADDRESS is `unix:PATH` or `HOST:PORT`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

#: The name in the night host's ssh configuration whose key leads to Redis.
ALIAS = "hmem-day-redis"
MODULE = "dispatcher.installation.night_host.redis_tunnel"
_PIECE = 1 << 16
_SSH_FAILED = 255
#: Seconds that Redis, or the day host, may take to answer.
CONNECT_SECONDS = 15.0


def relay(address: str) -> None:
    """Standard input to Redis, and Redis to standard output, until one of them ends."""
    redis = _connected(address)

    def answers() -> None:
        with suppress(OSError):
            while piece := redis.recv(_PIECE):
                _write(piece)
        os._exit(0)  # the other side may wait for ever for more input

    threading.Thread(target=answers, daemon=True).start()
    with suppress(OSError):
        while piece := os.read(0, _PIECE):
            redis.sendall(piece)


def _write(piece: bytes) -> None:
    while piece:
        piece = piece[os.write(1, piece) :]


def _connected(address: str) -> socket.socket:
    kind, _, rest = address.partition(":")
    if kind == "unix":
        found = socket.socket(socket.AF_UNIX)
        found.connect(rest)
        return found
    host, _, port = address.rpartition(":")
    found = socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS)
    found.settimeout(None)
    return found


async def listen(path: Path, ssh_config: Path) -> None:
    """A socket that only this account may connect to; for each connection its own ssh."""
    path.unlink(missing_ok=True)
    os.umask(0o177)
    server = await asyncio.start_unix_server(lambda reader, writer: _serve(reader, writer, ssh_config), path)
    _say(f"listening on {path}")
    async with server:
        await server.serve_forever()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ssh_config: Path) -> None:
    ssh = await asyncio.create_subprocess_exec(
        shutil.which("ssh") or "ssh", "-F", str(ssh_config), "-T", ALIAS, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    to_redis, from_redis = cast(asyncio.StreamWriter, ssh.stdin), cast(asyncio.StreamReader, ssh.stdout)
    pumps = [asyncio.create_task(_pump(reader, to_redis)), asyncio.create_task(_pump(from_redis, writer))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        writer.close()
        with suppress(ProcessLookupError):
            ssh.terminate()
        if await ssh.wait() == _SSH_FAILED:
            _say("ssh to the day host failed")


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()


@contextmanager
def tunnel(path: Path, ssh_config: Path, **how: Any) -> Iterator[None]:
    """The same in a process of its own while the block runs: to try it before there is a service. `how`: arguments for subprocess."""
    command = [sys.executable, "-P", "-m", MODULE, "listen", str(path), str(ssh_config)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how)
    try:
        end = time.monotonic() + CONNECT_SECONDS
        while not path.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()
        path.unlink(missing_ok=True)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main(words: list[str]) -> None:
    if words[:1] == ["listen"]:
        asyncio.run(listen(Path(words[1]), Path(words[2])))
    elif words[:1] == ["relay"]:
        relay(words[1])
    else:
        raise SystemExit("usage: redis_tunnel listen SOCKET SSH_CONFIG | relay ADDRESS")


if __name__ == "__main__":
    main(sys.argv[1:])
