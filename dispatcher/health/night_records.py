"""The last nights as the night leaves them in Redis for the morning report. Any field may be missing or odd: an older or newer night wrote it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import orjson

from shared.text.format import one_line, shorten
from shared.wire.ids import LATEST_TIMESTAMP

#: The most nights that are read, and characters of a failure that are shown.
MOST, SENTENCE_CHARACTERS = 14, 300
_COUNTS = (
    "new", "new_versions", "quarantined", "deleted", "chats", "turns", "chunks", "refused_tombstones", "moved", "release_bytes", "free_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class NightRecord:
    """One night. Times are POSIX seconds, sizes bytes; None where the night said nothing. `asked`, `found`: questions of the recall gate."""

    run: int
    finished_at: float
    seconds: float | None = None
    new: int | None = None
    new_versions: int | None = None
    quarantined: int | None = None
    deleted: int | None = None
    chats: int | None = None
    turns: int | None = None
    chunks: int | None = None
    refused_tombstones: int | None = None
    moved: int | None = None
    release_bytes: int | None = None
    free_bytes: int | None = None
    asked: int | None = None
    found: int | None = None
    mirror: str | None = None
    failed_step: str | None = None
    failed_why: str = ""


def read_records(raw: bytes | None) -> list[NightRecord]:
    """The nights of NIGHT_REPORT's value, the oldest first; those that cannot be read are left out."""
    try:
        record = orjson.loads(raw or b"null")
    except ValueError:
        return []
    nights = record.get("nights") if isinstance(record, dict) else None
    found = [one for one in map(_record, nights if isinstance(nights, list) else []) if one is not None]
    return sorted(found, key=lambda one: one.finished_at)[-MOST:]


def _record(value: Any) -> NightRecord | None:
    if not isinstance(value, dict):
        return None
    run, (finished_at, seconds) = (
        _count(value.get("run")),
        (_number(value.get(one)) for one in ("finished_at", "seconds")),
    )
    if run is None or finished_at is None or finished_at >= LATEST_TIMESTAMP:
        return None
    gate, failed, mirror = value.get("gate"), value.get("failed"), value.get("mirror")
    asked, found = (_count(gate.get(name)) for name in ("asked", "found")) if isinstance(gate, dict) else (None, None)
    step, why = (_words(failed.get(name)) for name in ("step", "sentence")) if isinstance(failed, dict) else ("", "")
    if failed is not None and not step:
        step = "a step"
    counts = {name: _count(value.get(name)) for name in _COUNTS} | {"asked": asked, "found": found}
    mirror = mirror if mirror in ("ok", "lags") else None
    failed_step = step or None
    return NightRecord(run, finished_at, seconds, **counts, mirror=mirror, failed_step=failed_step, failed_why=why)


def _number(value: object) -> float | None:
    """A finite number from zero on."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return None
    return float(value)


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _words(value: object) -> str:
    return shorten(one_line(value), SENTENCE_CHARACTERS) if isinstance(value, str) else ""
