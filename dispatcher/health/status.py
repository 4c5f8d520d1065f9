"""The figures of `hmem status`: queue, workers, release, pin, last good night, and what stopped a later one. The checks judge them."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from redis import Redis

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.chat_data.forget.layers.redis_entries import RedisReader
from dispatcher.health.nights import nights_of
from dispatcher.queue.admission import chats_let_in
from shared.config.settings import Settings
from shared.errors import ReleaseRefused
from shared.release.manifest import current_release, read_manifest
from shared.release.retention import read_pin
from shared.turns.records import RecordRefused, Turn
from shared.vectors.base import misfit
from shared.wire import keys
from shared.wire.ids import MAIN_BOT
from shared.wire.media import WaitingFile, waiting_files
from shared.wire.values import living, shown

#: Turn keys that are read for the count and the oldest turn: an estimate, not an audit.
SAMPLED_TURNS = 10_000


def read_status(settings: Settings, client: Redis) -> dict[str, Any]:
    """The figures by name: ages in hours; None where there is nothing to measure."""
    now, nights = time.time(), nights_of(client)
    count, oldest = turns_waiting(client)
    workers = (raw.decode("utf-8", "replace") for raw in cast(set[bytes], client.smembers(keys.WORKERS)))
    files = _waiting_files(client)
    return {
        "queued": client.llen(keys.TASKS),
        "in_flight": sum(client.hlen(keys.inflight(worker)) for worker in workers),
        "dead_letters": client.llen(keys.DEAD),
        "turns_waiting": count,
        "oldest_waiting_hours": None if oldest is None else (now - oldest) / 3600,
        "files_waiting": len(files),  # files of messages that are kept (KEEP_MEDIA), and their bytes
        "file_bytes_waiting": sum(one.size for one in files),
        # worker → run that it serves, 0 for none; None: Redis has no run for it
        "workers": {shown(name): run for name, run in living(client).items()},
        "bot": shown(cast(bytes | None, client.get(keys.bot_owner(MAIN_BOT))) or b"") or None,  # process of our bot
        "guests": len(chats_let_in(client, settings)),  # chats that are answered beside those of ALLOWED_CHATS
        "backend": settings.memory_backend,
        **_of_release(settings),
        "last_night_run": nights.good[0] if nights.good else None,
        "last_night_hours": max(0.0, now - nights.good[1]) / 3600 if nights.good else None,
        "last_failure": nights.failure,
        "forgetting": unfinished_names(settings.hmem_state_dir),  # ids of unfinished requests of hmem forget
    }


def _waiting_files(client: Redis) -> list[WaitingFile]:
    if cast(bytes, client.type(keys.KEPT)) != b"hash":
        return []
    return list(waiting_files(cast(dict[bytes, bytes], client.hgetall(keys.KEPT))))


def turns_waiting(client: Redis) -> tuple[int, float | None]:
    """How many turns wait for the night, and the time of the oldest, if it has one, in POSIX seconds."""
    count, times = 0, list[float]()
    for key, raw in islice(RedisReader(client).scan(f"{keys.MEMORY_PREFIX}*"), SAMPLED_TURNS):
        count += 1
        with suppress(RecordRefused):  # the night names it and why
            times.append(Turn.parse(key, raw).timestamp)
    return count, min(times, default=None)


def _of_release(settings: Settings) -> dict[str, Any]:
    """`index_error`: why MEMORY_BACKEND is not in the release."""
    found: dict[str, Any] = {"release": None, "index_error": None, "chats": 0, "turns_archived": 0, "pin": None}
    with suppress(ReleaseRefused):  # which the checks name
        if path := current_release(settings.hmem_memory_dir):
            manifest = read_manifest(path)
            why = None if settings.embedder == "none" else misfit(settings, manifest)
            found |= {"release": manifest.run, "index_error": why}
            found |= {"chats": manifest.chats, "turns_archived": manifest.turns}
        found["pin"] = read_pin(settings.hmem_memory_dir)
    return found
