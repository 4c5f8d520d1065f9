"""Whether a dispatcher or a bot is alive, for health checks of containers: by the leases that each may read with its own Redis user."""

from __future__ import annotations

from typing import cast

from redis import Redis

from dispatcher.health.findings import Fault
from shared.errors import NoDispatcher
from shared.wire import keys
from shared.wire.values import shown


def running_bot(client: Redis) -> str | None:
    """The process that holds the bot's lease, which expires within seconds if the bot hangs; None if nobody does."""
    holder = client.get(keys.BOT_OWNER)
    return shown(holder) if isinstance(holder, bytes) else None


def running_dispatchers(client: Redis) -> list[str]:
    """The dispatchers that renew their leases; NoDispatcher if there is none. Unlike `hmem status` it reads no release and no queue."""
    names = cast(set[bytes], client.smembers(keys.WORKERS))
    alive = sorted(name for raw in names if client.exists(keys.lease(name := raw.decode("utf-8", "replace"))))
    if not alive:
        raise NoDispatcher(
            "No dispatcher renews its lease in Redis, so messages wait. Start hmem run and check its log."
        )
    return [shown(name) for name in alive]


#: What is said, and the exit code, if no bot runs.
NO_BOT = "No bot holds the lease in Redis, so no messages are received. Start hmem telegram and check its log."
NO_BOT_CODE = int(Fault.BOT_NOT_RUNNING)
