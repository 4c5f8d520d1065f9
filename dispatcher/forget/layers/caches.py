"""What dispatchers that run keep in memory: each drops it when it sees another mark than before, and says so in its lease
(dispatcher/memory/cache_dropping.py).

One that is stopped, hangs or is of an earlier version says nothing, and is named. The bot keeps no texts, and `hmem mcp` and the metrics none of
their own: the first looks at the mark with each call.
"""

from __future__ import annotations

import time
from typing import Any

from redis import Redis

from dispatcher.memory.tombstones import raise_mark
from shared.system.processes import died_here
from shared.wire import keys

#: Seconds for which the dispatchers are waited for (three of their signs of life), between two looks, and before a word about it.
PATIENCE_SECONDS, LOOK_SECONDS, QUIET_SECONDS = 30.0, 0.2, 2.0


def drop_caches(client: Redis, say: Any) -> tuple[list[str], list[str]]:
    """Names of the dispatchers that have dropped what they kept, and of those that have not within PATIENCE_SECONDS."""
    raise_mark(client)
    waited, begun, said = _alive(client), time.monotonic(), False
    while True:
        left = [name for name in waited if not (_dropped(client, name) or died_here(name))]
        waiting = time.monotonic() - begun
        if not left or waiting > PATIENCE_SECONDS:
            return [name for name in waited if _dropped(client, name)], left
        if not said and waiting > QUIET_SECONDS:
            say(f"{len(left)} dispatcher(s) still keep what they have read; this waits until they have dropped it.")
            said = True
        time.sleep(LOOK_SECONDS)


def _alive(client: Any) -> list[str]:
    names = sorted(member.decode("utf-8", "replace") for member in client.smembers(keys.WORKERS))
    return [name for name in names if client.exists(keys.lease(name))]


def _dropped(client: Any, name: str) -> bool:
    """Whether its lease has the mark that is raised now: another `hmem forget` may have raised it since."""
    return bool(client.get(keys.lease(name)) == client.get(keys.FORGOTTEN))
