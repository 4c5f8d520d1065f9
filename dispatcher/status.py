"""How the day stands: queue, workers, release, last good night."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, cast

import orjson
from redis import Redis

from shared import keys
from shared.errors import ReleaseRefused
from shared.records import RecordRefused, Turn
from shared.release import current_release, read_manifest
from shared.settings import Settings

#: A night is missed when the last good one is older than this.
STALE_HOURS = 36.0
#: Turn keys looked at for the count and the oldest turn; an answer, not an audit.
SAMPLED_TURNS = 10_000


@dataclass
class Status:
    """Ages in hours; None where there is nothing to measure."""

    queued: int = 0
    in_flight: int = 0
    dead_letters: int = 0
    turns_waiting: int = 0
    oldest_waiting_hours: float | None = None
    workers: dict[str, int] = field(default_factory=dict)  # worker -> run it serves, 0 for none
    release: int | None = None
    release_error: str | None = None
    chats: int = 0
    turns_archived: int = 0
    last_night_run: int | None = None
    last_night_hours: float | None = None

    @property
    def stale(self) -> str | None:
        """Why memory must be looked after, or None."""
        if self.last_night_hours is not None and self.last_night_hours > STALE_HOURS:
            return f"the last good night is {self.last_night_hours:.0f} hours old"
        if self.last_night_hours is None and (self.oldest_waiting_hours or 0) > STALE_HOURS:
            return f"no night has ever run, and turns have been waiting for {self.oldest_waiting_hours:.0f} hours"
        return self.release_error

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"stale": self.stale}


def read_status(settings: Settings, client: Redis, now: float | None = None) -> Status:
    moment = time.time() if now is None else now
    status = Status(queued=client.llen(keys.TASKS), dead_letters=client.llen(keys.DEAD))
    _read_workers(client, status)
    _read_waiting(client, status, moment)
    _read_release(settings, status)
    if last := client.get(keys.NIGHT_LAST):
        record = orjson.loads(cast(bytes, last))
        status.last_night_run = record["run"]
        status.last_night_hours = max(0.0, moment - record["finished_at"]) / 3600
    return status


def _read_workers(client: Redis, status: Status) -> None:
    served = cast(dict[bytes, bytes], client.hgetall(keys.RELEASE))
    for raw in cast(set[bytes], client.smembers(keys.WORKERS)):
        worker = raw.decode("utf-8", "replace")
        status.in_flight += client.hlen(keys.inflight(worker))
        if client.exists(keys.lease(worker)):
            status.workers[worker] = int(served.get(raw, b"0"))


def _read_waiting(client: Redis, status: Status, now: float) -> None:
    found = [
        cast(bytes, key) for key in islice(client.scan_iter(match=f"{keys.MEMORY_PREFIX}*", count=1000), SAMPLED_TURNS)
    ]
    status.turns_waiting = len(found)
    oldest = now
    for start in range(0, len(found), 500):
        batch = found[start : start + 500]
        for key, raw in zip(batch, cast(list[bytes | None], client.mget(batch)), strict=True):
            try:
                oldest = min(oldest, Turn.parse(key, raw).timestamp) if raw is not None else oldest
            except RecordRefused:
                continue  # the night names it and why
    if found:
        status.oldest_waiting_hours = (now - oldest) / 3600


def _read_release(settings: Settings, status: Status) -> None:
    try:
        path = current_release(settings.hmem_memory_dir)
        if path is None and any((settings.hmem_memory_dir / "releases").glob("[0-9]*")):
            status.release_error = f"{settings.hmem_memory_dir / 'current'} is missing though there are releases"
        if path is not None:
            manifest = read_manifest(path)
            status.release = manifest.run
            status.chats = len(manifest.turns_per_chat)
            status.turns_archived = sum(manifest.turns_per_chat.values())
    except ReleaseRefused as error:
        status.release_error = str(error)
