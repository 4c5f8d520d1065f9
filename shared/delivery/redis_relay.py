"""Redis for a night on another host, through ssh: the forced command of its key connects it with the Redis of this one.

sshd forwards nothing: it can limit a key to one port, but not to one socket, where the Redis of a single user is.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit


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
