"""A real Redis 8, which has vector sets: that of HMEM_TEST_REDIS8_URL, else the one that scripts/redis8 has fetched; without either, tests skip.

`FaultyRedis` stands before one and passes everything on, but for the faults that a test asks for.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import socketserver
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Self

import pytest
from redis import Redis

from shared.config.settings import load_settings
from shared.vectors.redis.index import RedisBuilder
from tests.support.machine import redis_server
from tests.support.world import REPOSITORY

FETCHED = REPOSITORY / ".venv" / "redis8" / "redis-server"


def find_program() -> str | None:
    """A redis-server of version 8 on this machine."""
    for one in ("redis-server", str(FETCHED)):
        if path := shutil.which(one):
            told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
            found = re.search(r" v=(\d+)\.", told)
            if found and int(found[1]) >= 8:
                return path
    return None


def program() -> str:
    """A redis-server of version 8; skips the test if there is none."""
    if path := find_program():
        return path
    pytest.skip("There is no Redis 8. Run scripts/redis8, or set HMEM_TEST_REDIS8_URL to a server of yours.")


@dataclass(frozen=True)
class Redis8:
    url: str


@contextmanager
def redis8_server() -> Iterator[Redis8]:
    """A server of its own, with its files in a directory of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="hmem-redis8-") as folder,
        redis_server(Path(folder), "--save", "", program=program()) as (_, _, url),
    ):
        yield Redis8(url)


@contextmanager
def redis8_settings() -> Iterator[dict[str, Any]]:
    """Settings of an installation on a server of its own, or on that of HMEM_TEST_REDIS8_URL, where what it stored is removed."""
    url, name = os.environ.get("HMEM_TEST_REDIS8_URL"), f"test-{secrets.token_hex(4)}"
    if url is None:
        with redis8_server() as server:
            yield {"redis_vectors_url": server.url, "index_name": name}
        return
    try:
        yield {"redis_vectors_url": url, "index_name": name}
    finally:
        RedisBuilder(load_settings(redis_vectors_url=url, index_name=name), 0).sweep([])


class FaultyRedis:
    """Passes on to the server of `url`, at its own `url` within `with`.

    `log` has every command. A fault is asked for by the name of a command, as a list that is used up one command at a time, or for all: "drop" (the
    connection is closed), "hang" (no answer until the end), "ok", or an error reply such as "-LOADING …".
    """

    def __init__(self, url: str) -> None:
        self._behind = url
        self.log: list[list[bytes]] = []
        self.faults: dict[str, list[str]] = {}
        self.all_faults: str | None = None
        self.over = threading.Event()
        self.lock = threading.Lock()

    def __enter__(self) -> Self:
        host = Redis.from_url(self._behind).get_connection_kwargs()
        self.behind = host.get("host", "127.0.0.1"), int(host.get("port", 6379))
        self._server = _Server(("127.0.0.1", 0), type("Bound", (_Connection,), {"proxy": self}))
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"redis://127.0.0.1:{self._server.server_address[1]}/0"
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()

    def sent(self, *names: str) -> list[list[bytes]]:
        """The commands of these names; without names, all but those that begin a connection."""
        wanted = names or {one[0].decode() for one in self.log} - {"HELLO", "CLIENT"}
        return [one for one in self.log if one[0].decode() in wanted]

    def fault(self, name: str) -> str | None:
        with self.lock:
            if self.all_faults and name not in ("HELLO", "CLIENT"):
                return self.all_faults
            waiting = self.faults.get(name)
            fault = waiting.pop(0) if waiting else "ok"
            return None if fault == "ok" else fault


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class _Connection(socketserver.StreamRequestHandler):
    proxy: FaultyRedis
    disable_nagle_algorithm = True  # many small replies: each would wait 40 ms for the one before

    def handle(self) -> None:
        with socket.create_connection(self.proxy.behind) as behind, behind.makefile("rb") as replies:
            behind.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            try:
                while command := _read_command(self.rfile):
                    answer = self._answer([command[0].upper(), *command[1:]], behind, replies)
                    if answer is None:
                        return
                    self.wfile.write(answer)
            except OSError:  # the client gave up waiting, or was killed
                return

    def _answer(self, command: list[bytes], behind: socket.socket, replies: BufferedIOBase) -> bytes | None:
        """The reply, None to close the connection."""
        self.proxy.log.append(command)
        fault = self.proxy.fault(command[0].decode())
        if fault == "hang":
            self.proxy.over.wait(600)
        if fault in ("hang", "drop"):
            return None
        if fault:
            return fault.encode() + b"\r\n"
        behind.sendall(b"*%d\r\n" % len(command) + b"".join(b"$%d\r\n%s\r\n" % (len(one), one) for one in command))
        return _read_reply(replies)


def _read_command(stream: BufferedIOBase) -> list[bytes] | None:
    """An array of bulk strings; None at the end."""
    head = stream.readline()
    if not head.startswith(b"*"):
        return None
    words = []
    for _ in range(int(head[1:])):
        size = int(stream.readline()[1:])
        words.append(stream.read(size + 2)[:-2])
    return words


def _read_reply(stream: BufferedIOBase) -> bytes:
    """One whole reply as it came, of RESP2 or RESP3."""
    head = stream.readline()
    kind = head[:1]
    if not head or kind in b"+-:_,#(" or head[1:3] == b"-1":
        return head
    size = int(head[1:])
    if kind in b"$=!":
        return head + stream.read(size + 2)
    return head + b"".join(_read_reply(stream) for _ in range(size * (2 if kind == b"%" else 1)))
