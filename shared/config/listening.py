"""The address that an endpoint listens on: `address:port` as people write it."""

from __future__ import annotations

import re

#: Default: only connections from this host.
LOOPBACK = "127.0.0.1"
_WRITTEN = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[^\s:\[\]/@]*)):)?(?P<port>[0-9]{1,5})")


def listen_address(written: str) -> tuple[str, int]:
    """(host, port) of `127.0.0.1:9464`, `[::1]:9464` or `9464`; ValueError with a sentence for anything else."""
    match = _WRITTEN.fullmatch(written.strip())
    if match is None or not 1 <= int(match["port"]) <= 65_535:
        raise ValueError(f"{written!r} is not an address to listen on; write it like 127.0.0.1:9464 or [::1]:9464")
    return match["six"] or match["host"] or LOOPBACK, int(match["port"])
