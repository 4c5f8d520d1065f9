"""At the end of each night: its numbers go to Redis for the morning report. That is an extra, so nothing here fails a night.

After a kill between `done.json` and this, the next night writes what this one did not: the report is made from the nights on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import redis
import structlog

from nightly.night.report.record import MOST, read_report, report_of, with_refused
from shared.config.settings import Settings
from shared.wire import keys

log = structlog.get_logger()


def announce(
    settings: Settings, client: redis.Redis, steps: Sequence[str], refused: Mapping[str, Any] | None = None
) -> None:
    """Write the report of the last nights; `refused`: the failure of a night that has no folder. A failure is one line in the log."""
    try:
        nights = read_report(settings, steps)
        if refused:
            nights = with_refused(nights, refused)[-MOST:]
        client.set(keys.NIGHT_REPORT, report_of(nights), ex=keys.NIGHT_REPORT_TTL_SECONDS)
    except Exception as error:  # noqa: BLE001 - whatever it is, the night itself is over
        log.warning("the report of the nights was not written", why=f"{type(error).__name__}: {error}")
