"""A loopback server in the place of the Messages API that answers every request with one fault."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.servers.loopback import Answering, Loopback


@dataclass(frozen=True)
class Fault:
    """An HTTP status with an error of the API's shape; status 0: the connection is dropped."""

    status: int
    kind: str = "api_error"
    message: str = "Something is wrong."
    headers: dict[str, str] = field(default_factory=dict)


class FaultyApi(Loopback):
    """`requests` counts the messages that were refused."""

    def __init__(self, fault: Fault) -> None:
        self.requests = 0
        api = self

        class Handler(Answering, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._body()
                api.requests += 1
                if fault.status == 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                error = {"type": fault.kind, "message": fault.message}
                content = json.dumps({"type": "error", "error": error, "request_id": "req_1"}).encode()
                self._send_bytes(fault.status, content, "application/json", fault.headers)

        super().__init__(Handler)
