"""systemd's notification protocol (sd_notify), in the standard library: ready, alive, stopping.

One datagram per message, to the socket that NOTIFY_SOCKET names; without that variable nothing happens. These variables are systemd's,
not settings: they are read here, once, and removed from the environment, so that no child process can notify in our name.
A message that cannot be sent is logged and never stops the answers.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

from shared.text.logs import Logger

log = Logger()

#: Seconds that one message may wait for a supervisor that does not read.
SEND_SECONDS = 1.0


class Supervisor:
    """The supervisor that started us, if it listens. `watchdog_seconds` is how often it requires a sign of life, 0 for never."""

    def __init__(self, variables: MutableMapping[str, str] = os.environ) -> None:
        names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        address, microseconds, process = (variables.pop(name, "") for name in names)
        self._address = address if address[:1] in ("/", "@") and len(address) > 1 else None
        ours = process in ("", str(os.getpid()))  # else our parent is the watched process
        wanted = self._address and ours and microseconds.isdecimal()
        self.watchdog_seconds = int(microseconds) / 1e6 if wanted else 0.0
        self._sent: set[str] = set()

    def ready(self) -> None:
        """The start is complete. Sent once."""
        self._send_once("READY=1")

    def stopping(self) -> None:
        """The stop has begun. Sent once."""
        self._send_once("STOPPING=1")

    def alive(self) -> None:
        """Call only where there was progress: a process that hangs must stay silent."""
        self._send("WATCHDOG=1")

    def _send_once(self, message: str) -> None:
        if message not in self._sent:
            self._sent.add(message)
            self._send(message)

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_SECONDS)
                sender.sendto(message.encode("ascii"), address)
        except OSError as error:
            log.warning("the supervisor cannot be notified", message=message, error=str(error))
