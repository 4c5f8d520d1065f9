"""Redis of another host through ssh: behind each connection one ssh, whose forced command there leads to Redis (`relay`).

sshd forwards nothing: it can limit a key to one port, but not to one socket, where the Redis of a single user is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.connection import Connection


class SshConnection(Connection):
    """For URLs like `redis://night:…@hmem-day/0?ssh=CONFIG`: the host is one of that ssh configuration."""

    def __init__(self, *, ssh: str, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._config = ssh
        self._process: subprocess.Popen[bytes] | None = None

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command, end = ["ssh", "-F", self._config, "-T", self.host, "redis"], theirs.fileno()
            self._process = subprocess.Popen(command, stdin=end, stdout=end, start_new_session=True)
        ours.settimeout(self.socket_timeout)
        return ours

    def disconnect(self, *arguments: Any, **named: Any) -> None:
        super().disconnect(*arguments, **named)  # type: ignore[no-untyped-call]
        if self._process and os.getpid() == self.pid:  # a fork's copy leaves it alone
            self._process.terminate()
            self._process.wait()
            self._process = None


def relay(url: str) -> None:
    """Connect standard input and output with the Redis of this URL, until one side ends."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        redis = socket.socket(socket.AF_UNIX)
        redis.connect(unquote(parts.path))
    else:
        redis = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379))
    threading.Thread(target=_copy, args=(redis.recv, sys.stdout.buffer), daemon=True).start()
    _copy(lambda most: os.read(0, most), redis.makefile("wb"))


def _copy(read: Callable[[int], bytes], out: Any) -> None:
    """The first of both directions that ends, ends the process: the other may wait for ever."""
    with suppress(OSError):
        while piece := read(1 << 16):
            out.write(piece)
            out.flush()
    os._exit(0)
