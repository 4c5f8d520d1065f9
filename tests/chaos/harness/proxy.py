"""A TCP proxy that interferes with one chosen request: it knows nothing of the protocol, only bytes that mark the request.

    "reply"     the server gets the request and answers; the answer is thrown away and the connection cut
    "request"   the connection is cut before the server gets anything
    "gone"      as "reply", and from then on nobody is let in: the network is down until `disarm`

A client that sends one request and waits for its answer (ours do, on each connection) makes "the answer that comes next" the right one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Action = Literal["reply", "request", "gone"]

#: Bytes of one read; a mark that falls on the border of two reads is still found.
_BLOCK = 65_536


class Proxy:
    """In front of the Redis at `url`; clients use `self.url`. `arm` chooses the request; until then everything passes."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"127.0.0.1:{port}"))
        self._lock = threading.Lock()
        self._mark, self._nth, self._action = b"", 0, "reply"
        self._armed = self._down = False
        self._seen = 0
        self.struck = 0  # requests that were interfered with
        self._sockets: set[socket.socket] = set()

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True, name="proxy").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        with self._lock:
            left = list(self._sockets)
        for connection in left:
            _close(connection)

    def arm(self, mark: bytes, nth: int = 1, action: Action = "reply") -> None:
        """Interfere with the nth request from now on whose bytes contain the mark, in upper or lower case; with b"", the nth of all."""
        with self._lock:
            self._mark, self._nth, self._action = mark.lower(), nth, action
            self._seen = self.struck = 0
            self._armed, self._down = True, False

    def disarm(self) -> int:
        """Let everything pass again; how many requests with the mark there were."""
        with self._lock:
            self._armed = self._down = False
            return self._seen

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            if self._down:
                raise ConnectionRefusedError
            server = socket.create_connection(self._server, timeout=5)
        except OSError:
            _close(client)
            return
        server.settimeout(None)
        for connection in (client, server):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets |= {client, server}
        cut = threading.Event()
        back = threading.Thread(target=_answers, args=(server, client, cut), daemon=True)
        back.start()
        self._requests(client, server, cut)
        back.join()
        with self._lock:
            self._sockets -= {client, server}

    def _requests(self, client: socket.socket, server: socket.socket, cut: threading.Event) -> None:
        tail = b""
        with contextlib.suppress(OSError):
            while data := client.recv(_BLOCK):
                action = self._judge(tail, data)
                tail = (tail + data)[1 - len(self._mark) :] if len(self._mark) > 1 else b""
                if action == "request":
                    break
                if action in ("reply", "gone"):
                    cut.set()  # before the request goes out: its answer may be quick
                server.sendall(data)
        _close(server)
        _close(client)

    def _judge(self, tail: bytes, data: bytes) -> str | None:
        """What to do with these bytes. `tail`: the last ones before, where half of a mark may stand."""
        with self._lock:
            if self._down:
                return "request"
            if not self._armed:
                return None
            mark = self._mark
            found = (tail + data).lower().count(mark) - tail.lower().count(mark) if mark else 1
            hit = self._seen < self._nth <= self._seen + found
            self._seen += found
            if hit:
                self.struck += 1
                self._down = self._action == "gone"
            return self._action if hit else None


def _answers(server: socket.socket, client: socket.socket, cut: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while data := server.recv(_BLOCK):
            if cut.is_set():
                break
            client.sendall(data)
    _close(client)
    _close(server)


def _close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()
