"""The gauges that each scrape reads: queue and workers in Redis, the release on disk, the last night.

Each scrape opens its own connection with a short time limit. A value that cannot be read has no sample: 0 would be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any

from redis import RedisError, ResponseError

from dispatcher.health.nights import NIGHT_KEYS, read_nights
from dispatcher.queue.state import oldest_seconds
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.release.manifest import current_release, read_manifest
from shared.wire import keys
from shared.wire.client import asking_once, open_redis
from shared.wire.ids import bot_names
from shared.wire.values import living

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

#: Limit of each answer of Redis, in seconds; a scrape asks six times.
ANSWER_SECONDS = 1.5
#: Chats whose unconsolidated turns are counted.
CHATS_COUNTED = 1_000

#: Name → help text of every gauge.
GAUGES = {
    "hmem_redis_up": "Whether Redis answered this scrape.",
    "hmem_queue_tasks": "Tasks that wait in the queue.",
    "hmem_queue_oldest_seconds": "Age of the task at the head of the queue, by the bot's clock; 0 for an empty queue.",
    "hmem_tasks_in_flight": "Tasks that dispatchers hold, including dead dispatchers.",
    "hmem_dead_letters": "Tasks in the dead letters.",
    "hmem_outbox_messages": "Messages that the bot has not fetched.",
    "hmem_dispatchers": "Dispatchers that are running.",
    "hmem_unconsolidated_turns": f"Turns that are not in the day store yet (of up to {CHATS_COUNTED} chats).",
    "hmem_night_last_success_timestamp_seconds": "When the last good night ended.",
    "hmem_night_failed": "Whether a night has failed since the last good one.",
    "hmem_release_run": "Run of the current release.",
    "hmem_release_age_seconds": "Time since the current release was built.",
}


class Reading:
    """A collector of prometheus_client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def describe(self) -> list[GaugeMetricFamily]:
        """Empty, so that registering reads nothing."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        now = time.time()
        for name, value in (self._of_redis(now) | self._of_release(now)).items():
            yield GaugeMetricFamily(name, GAUGES[name], value=value)

    def _of_redis(self, now: float) -> dict[str, float]:
        try:
            with closing(open_redis(self._settings.redis_url, asking_once(ANSWER_SECONDS))) as client:
                return {"hmem_redis_up": 1.0} | _redis_values(client, now)
        except ResponseError:  # it answers, and refuses
            return {"hmem_redis_up": 1.0}
        except RedisError:
            return {"hmem_redis_up": 0.0}

    def _of_release(self, now: float) -> dict[str, float]:
        try:
            path = current_release(self._settings.hmem_memory_dir)
            if path is None:
                return {}
            manifest = read_manifest(path)
            built = datetime.fromisoformat(manifest.created_at).timestamp()
        except (HmemError, OSError, ValueError):
            return {}
        return {"hmem_release_run": float(manifest.run), "hmem_release_age_seconds": max(0.0, now - built)}


def _redis_values(client: Any, now: float) -> dict[str, float]:
    """All values from Redis."""
    with client.pipeline(transaction=False) as pipe:
        pipe.llen(keys.TASKS).llen(keys.DEAD).smembers(keys.WORKERS).srandmember(keys.CHATS, CHATS_COUNTED)
        for key in NIGHT_KEYS:
            pipe.get(key)
        queued, dead, workers, chats, *nights_left = pipe.execute()
    nights = read_nights(nights_left)
    found = {
        "hmem_queue_tasks": queued,
        "hmem_queue_oldest_seconds": oldest_seconds(client, now) if queued else 0,
        "hmem_tasks_in_flight": _sum(client, "HLEN", map(keys.inflight, _names(workers))),
        "hmem_dead_letters": dead,
        "hmem_outbox_messages": _sum(client, "LLEN", map(keys.outbox, bot_names())),
        "hmem_dispatchers": len(living(client)),
        "hmem_unconsolidated_turns": _sum(client, "LLEN", map(keys.unconsolidated, _names(chats))),
        "hmem_night_last_success_timestamp_seconds": nights.good[1] if nights.good else None,
        "hmem_night_failed": nights.failure is not None,
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _names(found: Iterable[bytes]) -> Iterator[str]:
    return (raw.decode("utf-8", "replace") for raw in found)


def _sum(client: Any, command: str, names: Iterable[str]) -> int:
    """What the command counts under all these keys."""
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.execute_command(command, name)
        return sum(pipe.execute())
