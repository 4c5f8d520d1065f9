"""Messages for the bot to deliver unasked that no bot has fetched. Ours fetches at once, h-cli's never: they must not stay for ever."""

from __future__ import annotations

from typing import Any

import structlog

from shared.turns.records import RecordRefused, loads_object, timestamp_of
from shared.wire import keys

log = structlog.get_logger()

#: A reminder speaks of the next day: after so many it would only confuse.
KEPT_DAYS = 3
_DAY_SECONDS = 86_400.0


def created_at(raw: bytes) -> float | None:
    """When a message was put there, in unix seconds; None for what is none of ours."""
    try:
        return timestamp_of(loads_object(raw).get("created_at"))
    except RecordRefused:
        return None


def drop_unfetched(client: Any, now: float) -> int:
    """Drop, from the oldest on, what is older than KEPT_DAYS, or is not dated by any clock near ours; how many."""
    dropped = 0
    while (raw := client.lindex(keys.OUTBOX, 0)) is not None:
        at = created_at(raw)
        if at is not None and abs(now - at) < KEPT_DAYS * _DAY_SECONDS:
            break
        dropped += int(client.lrem(keys.OUTBOX, 1, raw))
    if dropped:
        log.warning("messages that no bot has fetched are dropped", messages=dropped, days=KEPT_DAYS)
    return dropped
