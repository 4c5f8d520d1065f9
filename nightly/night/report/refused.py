"""What nights refused, set aside or put off, and why: the rows of a table for the owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RefusedCount:
    """So many of `what`, for one reason, in one night."""

    run: int
    what: str
    count: int
    reason: str


#: Part of a summary (reason → count) → what was refused.
BY_REASON = {
    "reasons": "record quarantined",
    "refused_tombstones": "tombstone refused",
    "not_embedded": "text without a vector",
    "without_model": "summary without the model",
    "without_notes": "group of turns without notes",
}


def refused_in(run: int, summary: Mapping[str, Any]) -> Iterator[RefusedCount]:
    """Of one night, from its summary (`counts_of` for one that stopped)."""
    for name, what in BY_REASON.items():
        for reason, count in (summary.get(name) or {}).items():
            yield RefusedCount(run, what, count, reason)
    for reason, count in Counter(one["reason"] for one in (summary.get("set_aside") or {}).values()).items():
        yield RefusedCount(run, "turn that cannot be chunked", count, reason)
    for reason, count in Counter((summary.get("without_summary") or {}).values()).items():
        yield RefusedCount(run, "chat without a summary", count, reason)
    if count := summary.get("only_hiding_tombstones"):
        yield RefusedCount(run, "forgetting that only hides", count, "this night has no owner key")
    gate = summary.get("gate") or {}
    if warning := gate.get("refuse") or gate.get("warn"):
        yield RefusedCount(run, "warning of the gate", 1, warning)
    for name, what in (("mirror_failed", "mirror"), ("not_pruned", "old releases"), ("not_swept", "old indexes")):
        if why := summary.get(name):
            yield RefusedCount(run, what, 1, why)
