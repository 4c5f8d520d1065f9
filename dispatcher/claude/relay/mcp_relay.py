"""What the Claude CLI starts as its memory server: it relays data between the CLI and the socket of the real server.   mcp_relay.py SOCKET

Run as a file, by a Python without our packages. It has no settings and no secrets; the server it connects to is a child of the dispatcher.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

BLOCK = 1 << 16


def hand_on(reading: int, writing: int) -> None:
    while block := os.read(reading, BLOCK):
        while block:
            block = block[os.write(writing, block) :]


def main(path: str) -> None:
    place = Path(path)
    os.chdir(place.parent)  # a socket's address is limited to about a hundred characters
    server = socket.socket(socket.AF_UNIX)
    server.connect(place.name)

    def ask() -> None:
        hand_on(0, server.fileno())
        server.shutdown(socket.SHUT_WR)

    threading.Thread(target=ask, daemon=True).start()
    hand_on(server.fileno(), 1)


if __name__ == "__main__":
    main(sys.argv[1])
