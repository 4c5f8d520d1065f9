"""The caches of running dispatchers: each drops them when it sees a new mark, and confirms this in its lease
(dispatcher/memory/cache_dropping.py).

A dispatcher that is stopped, hangs or has an earlier version does not confirm, and is named. The bot and the metrics cache no texts; `hmem mcp`
checks the mark on each call.
"""

from __future__ import annotations

import time
from typing import Any

from redis import Redis

from dispatcher.memory.tombstones import raise_mark
from shared.system.processes import died_here
from shared.wire import keys

#: How long to wait for the dispatchers (three heartbeats), between two checks, and before a message about it. Seconds.
DROPPING_SECONDS, LOOK_SECONDS, QUIET_SECONDS = 30.0, 0.2, 2.0


def drop_caches(client: Redis, say: Any) -> tuple[list[str], list[str]]:
    """Names of the dispatchers that have dropped their caches, and of those that have not within DROPPING_SECONDS."""
    raise_mark(client)
    waited, begun, reported = _alive(client), time.monotonic(), False
    while True:
        left = [name for name in waited if not (_dropped(client, name) or died_here(name))]
        waiting = time.monotonic() - begun
        if not left or waiting > DROPPING_SECONDS:
            return [name for name in waited if _dropped(client, name)], left
        if not reported and waiting > QUIET_SECONDS:
            say(f"Waiting for {len(left)} dispatcher(s) to drop their caches.")
            reported = True
        time.sleep(LOOK_SECONDS)


def _alive(client: Any) -> list[str]:
    names = sorted(member.decode("utf-8", "replace") for member in client.smembers(keys.WORKERS))
    return [name for name in names if client.exists(keys.lease(name))]


def _dropped(client: Any, name: str) -> bool:
    """Whether its lease has the current mark, which another `hmem forget` may have changed meanwhile."""
    return bool(client.get(keys.lease(name)) == client.get(keys.FORGOTTEN))
