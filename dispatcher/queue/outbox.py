"""Unsolicited messages that no bot has fetched. Ours fetches immediately, h-cli's never does, so they must not stay forever."""

from __future__ import annotations

from typing import Any

import structlog

from shared.turns.records import RecordRefused, loads_object, timestamp_of
from shared.wire import keys

log = structlog.get_logger()

#: A reminder is about the next day: after this many days it would only confuse.
KEPT_DAYS = 3
_DAY_SECONDS = 86_400.0


def created_at(raw: bytes) -> float | None:
    """When the message was put there, in POSIX seconds; None for one that we did not write."""
    try:
        return timestamp_of(loads_object(raw).get("created_at"))
    except RecordRefused:
        return None


def drop_unfetched(client: Any, now: float) -> int:
    """Drop from the oldest on what is older than KEPT_DAYS, or has a date far from our clock; returns how many."""
    dropped = 0
    while (raw := client.lindex(keys.OUTBOX, 0)) is not None:
        at = created_at(raw)
        if at is not None and abs(now - at) < KEPT_DAYS * _DAY_SECONDS:
            break
        dropped += int(client.lrem(keys.OUTBOX, 1, raw))
    if dropped:
        log.warning("messages that no bot has fetched are dropped", messages=dropped, days=KEPT_DAYS)
    return dropped
