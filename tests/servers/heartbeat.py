"""A loopback stand-in for a service that expects a call after each night: healthchecks.io, Uptime Kuma."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler

from tests.servers.loopback import Answering, Loopback


class HeartbeatServer(Loopback):
    """`asked` has the path and query of each GET. `statuses`: what to answer, one after another, then 200; `seconds`: how long that takes."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.statuses: list[int] = []
        self.seconds = 0.0
        server = self

        class Handler(Answering, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                time.sleep(server.seconds)
                self._send_bytes(server.statuses.pop(0) if server.statuses else 200, b"OK", "text/plain")

        super().__init__(Handler)
