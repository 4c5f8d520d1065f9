"""*Today*: whether all is well, what waits, and what happens next."""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import datetime
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, go_to
from dispatcher.health.checks.host import our_directories
from dispatcher.health.doctor import examine
from dispatcher.health.findings import Finding
from dispatcher.health.status import read_status
from shared.config.settings import Settings
from shared.errors import HmemError
from shared.system.command import translate


def page(asked: Asked) -> Response:
    """A session that sees some chats begins with those."""
    if not asked.session.grant.whole_host:
        return go_to("/chats")
    if asked.in_part:  # the checks take some seconds, so they come after the rest
        findings = list(examine(asked.settings))
        return asked.part("findings.html", findings=_worst_first(findings))
    status, error, faults = None, None, list[Finding]()
    try:
        status = read_status(asked.settings, asked.reader.redis)
        faults = [one for one in examine(asked.settings, lambda check: check.status) if one.state == "problem"]
    except (HmemError, RedisError, OSError) as failed:
        error = f"The state cannot be read. {translate(failed) or failed}"
    return asked.page(
        "today.html",
        "Today",
        status=200,
        state=status,
        faults=faults,
        error=error,
        disks=disks(asked.settings),
        next_night=next_night(asked.settings),
        findings=_worst_first(list(examine(asked.settings))) if asked.value("check") else None,
        running=asked.jobs.running("night"),
        jobs=asked.jobs.newest(5),
    )


def disks(settings: Settings) -> list[tuple[str, int, int]]:
    """(our directory, bytes of its disk that are free, bytes of that disk); one for each disk."""
    found: dict[int, tuple[str, int, int]] = {}
    for path in our_directories(settings):
        with suppress(OSError):
            usage = shutil.disk_usage(path)
            found.setdefault(path.stat().st_dev, (str(path), usage.free, usage.total))
    return [*found.values()]


def _worst_first(findings: list[Any]) -> list[Any]:
    order = {"problem": 0, "warning": 1, "skipped": 2, "ok": 3}
    return sorted(findings, key=lambda finding: order[finding.state])


def next_night(settings: Settings) -> datetime | None:
    """When NIGHT_CRON says; only a host that runs `hmem-night schedule` obeys it. None if it cannot be read."""
    from apscheduler.triggers.cron import CronTrigger

    try:
        trigger = CronTrigger.from_crontab(settings.night_cron, timezone=settings.timezone)
    except ValueError:
        return None
    found: datetime | None = trigger.get_next_fire_time(None, datetime.now(settings.timezone))
    return found
