"""*Operations*: whether all is well, what waits, and what happens next; and one long piece of work."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from redis.exceptions import RedisError
from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, NotShown
from dispatcher.health.doctor import examine, status_problems
from dispatcher.health.findings import Finding
from dispatcher.health.status import read_status
from shared.config.settings import Settings
from shared.config.values import named_weekdays
from shared.errors import HmemError
from shared.system.command import translate


def page(asked: Asked) -> Response:
    if asked.in_part:  # the checks take some seconds, so they come after the rest
        return asked.page("findings.html", findings=_worst_first(asked))
    status, error, faults = None, None, list[Finding]()
    try:
        status = read_status(asked.settings, asked.redis)
        faults = status_problems(asked.settings)
    except (HmemError, RedisError, OSError) as failed:
        error = f"The state cannot be read. {translate(failed) or failed}"
    return asked.page(
        "operations.html",
        "Operations",
        state=status,
        faults=faults,
        error=error,
        next_night=next_night(asked.settings),
        findings=_worst_first(asked) if asked.value("check") else None,
    )


def _worst_first(asked: Asked) -> list[Finding]:
    order = ("problem", "warning", "skipped", "ok")
    return sorted(examine(asked.settings), key=lambda finding: order.index(finding.state))


def next_night(settings: Settings) -> datetime | None:
    """When NIGHT_CRON says; only a host that runs `hmem-night schedule` obeys it. None if that is never."""
    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(named_weekdays(settings.night_cron), timezone=settings.timezone)
    found: datetime | None = trigger.get_next_fire_time(None, datetime.now(settings.timezone))
    return found


def job(asked: Asked) -> Response:
    one = asked.jobs.get(asked.value("job"))
    if one is None:
        raise NotShown
    grant = asked.session.grant
    if not grant.whole_host and (one.chats is None or not all(map(grant.sees, one.chats))):
        raise NotShown
    if one.state == "done" and one.file:
        one.file.unlink(missing_ok=True)
    # to who sees some chats nothing is shown of it: it may name other chats, and says much of the host
    values: dict[str, Any] = {"job": one, "output": one.output if grant.whole_host else None}
    return asked.page("job_state.html", **values) if asked.in_part else asked.page("job.html", one.title, **values)
