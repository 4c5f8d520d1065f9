"""The figures of `hmem status`: queue, workers, release, pin, last good night, and what stopped a later one. The checks judge them."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

from redis import Redis

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.chat_data.forget.layers.redis_entries import RedisReader
from dispatcher.health.nights import Failure, nights_of
from dispatcher.queue.admission import chats_let_in
from shared.config.settings import Settings
from shared.errors import ReleaseRefused
from shared.release.manifest import current_release, read_manifest
from shared.release.retention import Pin, read_pin
from shared.turns.records import RecordRefused, Turn
from shared.vectors.base import misfit
from shared.wire import keys
from shared.wire.ids import MAIN_BOT
from shared.wire.media import waiting_files
from shared.wire.values import living, shown

#: Turn keys that are read for the count and the oldest turn: an estimate, not an audit.
SAMPLED_TURNS = 10_000


@dataclass
class Status:
    """Ages in hours; None where there is nothing to measure."""

    queued: int = 0
    in_flight: int = 0
    dead_letters: int = 0
    turns_waiting: int = 0
    oldest_waiting_hours: float | None = None
    files_waiting: int = 0  # files of messages that are kept (KEEP_MEDIA), and their bytes
    file_bytes_waiting: int = 0
    workers: dict[str, int | None] = field(
        default_factory=dict
    )  # worker → run that it serves, 0 for none; None: Redis has no run for it
    bot: str | None = None  # process of our bot
    guests: int = 0  # chats that are answered beside those of ALLOWED_CHATS
    backend: str = "auto"  # MEMORY_BACKEND
    index_error: str | None = None  # why that is not in the release
    release: int | None = None
    chats: int = 0
    turns_archived: int = 0
    pin: Pin | None = None
    last_night_run: int | None = None
    last_night_hours: float | None = None
    last_failure: Failure | None = None
    forgetting: list[str] = field(default_factory=list)  # ids of unfinished requests of hmem forget


def read_status(settings: Settings, client: Redis, now: float | None = None) -> Status:
    moment = time.time() if now is None else now
    status = Status(
        queued=client.llen(keys.TASKS), dead_letters=client.llen(keys.DEAD), backend=settings.memory_backend
    )
    status.workers = {shown(name): run for name, run in living(client).items()}
    for raw in cast(set[bytes], client.smembers(keys.WORKERS)):
        status.in_flight += client.hlen(keys.inflight(raw.decode("utf-8", "replace")))
    status.bot = shown(cast(bytes | None, client.get(keys.bot_owner(MAIN_BOT))) or b"") or None
    status.guests = len(chats_let_in(client, settings))
    status.turns_waiting, oldest = turns_waiting(client)
    status.oldest_waiting_hours = None if oldest is None else (moment - oldest) / 3600
    if cast(bytes, client.type(keys.KEPT)) == b"hash":
        files = list(waiting_files(cast(dict[bytes, bytes], client.hgetall(keys.KEPT))))
        status.files_waiting, status.file_bytes_waiting = len(files), sum(one.size for one in files)
    with suppress(ReleaseRefused):  # which the checks name
        _read_release(settings, status)
        status.pin = read_pin(settings.hmem_memory_dir)
    nights = nights_of(client)
    if nights.good is not None:
        status.last_night_run, status.last_night_hours = nights.good[0], max(0.0, moment - nights.good[1]) / 3600
    status.last_failure = nights.failure
    status.forgetting = unfinished_names(settings.hmem_state_dir)
    return status


def turns_waiting(client: Redis) -> tuple[int, float | None]:
    """How many turns wait for the night, and the time of the oldest, if it has one, in POSIX seconds."""
    count, times = 0, list[float]()
    for key, raw in islice(RedisReader(client).scan(f"{keys.MEMORY_PREFIX}*"), SAMPLED_TURNS):
        count += 1
        with suppress(RecordRefused):  # the night names it and why
            times.append(Turn.parse(key, raw).timestamp)
    return count, min(times, default=None)


def _read_release(settings: Settings, status: Status) -> None:
    path = current_release(settings.hmem_memory_dir)
    if path is not None:
        manifest = read_manifest(path)
        status.release = manifest.run
        status.index_error = None if settings.embedder == "none" else misfit(settings, manifest)
        status.chats = manifest.chats
        status.turns_archived = manifest.turns
