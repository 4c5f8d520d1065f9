"""The state of the day host: queue, workers, release, pin, last good night, and what stopped a later one."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, cast

from redis import Redis
from redis.exceptions import ResponseError

from dispatcher.chat_data.forget.journal import unfinished_names
from dispatcher.health.nights import NIGHT_KEYS, STALE_HOURS, Failure, pin_sentence, read_nights
from dispatcher.queue.chat.guests import allowed_guests
from shared.config.settings import Settings
from shared.errors import ReleaseRefused
from shared.release.manifest import REPAIR, Manifest, current_release, read_manifest
from shared.release.retention import Pin, read_pin
from shared.turns.records import RecordRefused, Turn
from shared.vectors.registry import misfit
from shared.wire import keys
from shared.wire.media.kept import waiting_files
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
    bot: str | None = None  # process of the Telegram bot
    guests: int = 0  # chats that an owner has allowed from a chat
    backend: str = "auto"  # MEMORY_BACKEND
    index_error: str | None = None  # why that is not in the release
    release: int | None = None
    release_error: str | None = None
    chats: int = 0
    turns_archived: int = 0
    pin: Pin | None = None
    pin_stale: str | None = None
    last_night_run: int | None = None
    last_night_hours: float | None = None
    last_failure: Failure | None = None
    forgetting: list[str] = field(default_factory=list)  # ids of unfinished requests of hmem forget

    @property
    def stale(self) -> str | None:
        """Why memory is out of date, or None."""
        return self._night_missed or self.release_error or self.pin_stale

    @property
    def advice(self) -> str:
        """What to do about that."""
        if self.release_error and not self._night_missed:
            back = "hmem release rollback RUN goes back to an intact release (hmem release list), until hmem release unpin."
            return back if self.release is None else f"{REPAIR} Until then {back}"
        if self.pin_stale and not self._night_missed:
            return "Remove the pin (hmem release unpin), then run hmem-night run."
        return "Check hmem-night status and its log, then run hmem-night run."

    @property
    def _night_missed(self) -> str | None:
        if self.last_night_hours is not None and self.last_night_hours > STALE_HOURS:
            return f"the last good night is {self.last_night_hours:.0f} hours old"
        if self.last_night_hours is None and (self.oldest_waiting_hours or 0) > STALE_HOURS:
            return f"no night has ever run, and turns have been waiting for {self.oldest_waiting_hours:.0f} hours"
        return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"stale": self.stale}


def _guests(client: Redis) -> int:
    try:
        return len(allowed_guests(client))
    except ResponseError:  # a key of another type
        return 0


def read_status(settings: Settings, client: Redis, now: float | None = None) -> Status:
    moment = time.time() if now is None else now
    status = Status(
        queued=client.llen(keys.TASKS), dead_letters=client.llen(keys.DEAD), backend=settings.memory_backend
    )
    _read_workers(client, status)
    status.bot = shown(cast(bytes | None, client.get(keys.BOT_OWNER)) or b"") or None
    status.guests = _guests(client)
    _read_waiting(client, status, moment)
    if cast(bytes, client.type(keys.KEPT)) == b"hash":
        files = list(waiting_files(cast(dict[bytes, bytes], client.hgetall(keys.KEPT))))
        status.files_waiting, status.file_bytes_waiting = len(files), sum(one.size for one in files)
    _read_release(settings, status)
    _read_pin(settings, status, moment)
    nights = read_nights([client.get(key) for key in NIGHT_KEYS])
    if nights.good is not None:
        status.last_night_run, status.last_night_hours = nights.good[0], max(0.0, moment - nights.good[1]) / 3600
    status.last_failure = nights.failure
    status.forgetting = unfinished_names(settings.hmem_state_dir)
    return status


def _read_workers(client: Redis, status: Status) -> None:
    status.workers = {shown(name): run for name, run in living(client).items()}
    for raw in cast(set[bytes], client.smembers(keys.WORKERS)):
        status.in_flight += client.hlen(keys.inflight(raw.decode("utf-8", "replace")))


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
            status.release_error = _changed(path, manifest)
            status.index_error = None if settings.embedder == "none" else misfit(settings, manifest)
            status.chats = manifest.chats
            status.turns_archived = manifest.turns
    except ReleaseRefused as error:
        status.release_error = str(error)


def _changed(release: Path, manifest: Manifest) -> str | None:
    """The first file that is missing or has another size: a quick check, not the proof of `hmem release verify`."""
    for name, expected in manifest.files.items():
        try:
            if (release / name).stat().st_size == expected["size"]:
                continue
        except OSError:
            pass
        return f"release {manifest.run}: {name} is missing or was changed (hmem release verify)"
    return None


def _read_pin(settings: Settings, status: Status, now: float) -> None:
    try:
        status.pin = read_pin(settings.hmem_memory_dir)
        status.pin_stale = pin_sentence(status.pin, now, settings) if status.pin else None
    except ReleaseRefused as error:
        status.release_error = status.release_error or str(error)
