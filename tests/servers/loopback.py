"""What the stand-ins for services outside share: an HTTP server on a free port of this host, for as long as a block lasts."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

#: Seconds between two looks whether the server is to end.
LOOK_SECONDS = 0.02


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that was killed in mid-request is nothing to report."""


class Answering(BaseHTTPRequestHandler):
    """A handler that reads whole requests and sends whole answers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body are two writes

    def _body(self) -> bytes:
        """Also that of a request whose length is not said ahead, as one with files is sent."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _send(self, status: int, value: Any) -> None:
        self._send_bytes(status, json.dumps(value).encode(), "application/json")

    def _send_bytes(self, status: int, content: bytes, kind: str, more: Mapping[str, str] | None = None) -> None:
        try:
            self.send_response(status)
            headers = {"Content-Type": kind, "Content-Length": str(len(content)), **(more or {})}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # the client gave up waiting, or was killed
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Loopback:
    """Answers at `url` within `with`."""

    #: Where it listens, unless a subclass says otherwise; port 0 is a free one.
    host, port = "127.0.0.1", 0

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        self._server = _Server((self.host, port or self.port), handler)
        self.url = f"http://{self.host}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(LOOK_SECONDS,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
