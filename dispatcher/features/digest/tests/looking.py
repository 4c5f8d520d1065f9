"""Looks of the dispatcher at what the owner is to be told, at times that a test chooses, on the real Redis."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

from redis import Redis

from dispatcher.features.digest.part import DigestPart
from dispatcher.health.findings import Setup
from dispatcher.memory.day.memory import DayMemory
from shared.config.settings import Settings
from shared.system import formats
from shared.system.files import make_dir
from shared.wire.client import BACKGROUND, open_redis

BERLIN = ZoneInfo("Europe/Berlin")
OWNER = "9912"
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def at(said: str, zone: ZoneInfo = BERLIN) -> float:
    """POSIX seconds of a time on a clock there."""
    return datetime.fromisoformat(said).replace(tzinfo=zone).timestamp()


def roomy(_: Path) -> Any:
    """A disk with room."""
    return disk(500 << 30)


def disk(free: int, total: int = 1000 << 30) -> Any:
    return SimpleNamespace(total=total, free=free, used=total - free)


def host_at(
    settings: Settings,
    client: Redis,
    now: float,
    *,
    first_run: float = 0.0,
    usage: Callable[[Path], Any] = roomy,
) -> Setup:
    """A look at that time on a host where a dispatcher first ran at `first_run`."""
    ran_since(settings.hmem_state_dir, first_run)
    return Setup(settings, client, lambda: now, usage)


def part_of(settings: Settings, day: DayMemory) -> DigestPart:
    """This feature's part of a dispatcher, without the rest of one."""
    client = open_redis(settings.redis_url, BACKGROUND)
    core: Any = SimpleNamespace(
        settings=settings, day=day, served=SimpleNamespace(reading=nullcontext), background=client
    )
    return DigestPart(core)


def good_night(client: Redis, ended: float, run: int = 7) -> None:
    client.set("hcli:mem:night:last", json.dumps({"run": run, "finished_at": ended}))


def ran_since(state: Path, began: float = 0.0) -> None:
    """A dispatcher first ran here at that time, long before today's report was due."""
    formats.claim(make_dir(state), "hmem_state_dir")
    os.utime(state / formats.NAME, (began, began))


def failed_night(client: Redis, ended: float, run: int = 8) -> None:
    record = {
        "run": run, "step": "embed", "error": "EmbeddingError", "sentence": "Ollama does not answer. Start it.", "exit_code": 13, "at": ended,
    }  # fmt: skip
    client.set("hcli:mem:night:failed", json.dumps(record))


def night(run: int, ended: float, **more: Any) -> dict[str, Any]:
    """A night as the night itself describes it."""
    return {
        "run": run, "finished_at": ended, "seconds": 252.0, "steps": {"export": 1.0}, "exported": 131, "new": 128, "new_versions": 2,
        "already_archived": 0, "quarantined": 1, "deleted": 130, "chats": 7, "turns": 12_345, "chunks": 15_210, "refused_tombstones": 0,
        "gate": {"asked": 100, "found": 97}, "moved": 3 << 20, "release_bytes": 1200 << 20, "free_bytes": 41 << 30, "mirror": "ok",
        "failed": None,
    } | more  # fmt: skip


def set_report(client: Redis, *nights: object) -> None:
    client.set("hcli:mem:night:report", json.dumps({"v": 1, "nights": nights}))


def outbox(client: Redis) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in cast(list[bytes], client.lrange("hcli:mem:outbox:main", 0, -1))]


def taken(client: Redis) -> list[str]:
    """The texts of the outbox, which is empty then."""
    found = [str(one["text"]) for one in outbox(client)]
    client.delete("hcli:mem:outbox:main")
    return found
