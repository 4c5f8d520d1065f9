"""What the owner is told by message, and when."""

from __future__ import annotations

from datetime import date
from datetime import time as clock
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from shared.config.feature_settings import REPORTS, FeatureSettings, Touched
from shared.config.values import BlankIsUnset, ChatIds, ClockTime, HttpUrl, accepted_by
from shared.text.dates.calendar_days import instant

if TYPE_CHECKING:
    from shared.config.settings import Settings


def one_chat(value: str) -> None:
    """ValueError for more than one."""
    if "," in value:
        raise ValueError("write one chat id, such as 9912")


class DigestSettings(FeatureSettings):
    report_chat: Annotated[ChatIds, accepted_by(one_chat), Touched(REPORTS, by_hand=True)] = ""
    """id of your chat, for the morning report and the alarms"""

    report_at: Annotated[ClockTime, Touched(REPORTS)] = "08:00"
    """when report and digests are sent, in CHAT_TIMEZONE"""

    heartbeat_url: Annotated[BlankIsUnset[HttpUrl], Field(repr=False), Touched(REPORTS, by_hand=True)] = None
    """called after each night, so that a service elsewhere notices silence (healthchecks.io, Uptime Kuma)"""


def report_due(settings: Settings, day: date) -> float:
    """When the report and the digests of a day are due (REPORT_AT), in POSIX seconds."""
    return instant(day, clock.fromisoformat(settings.of(DigestSettings).report_at), settings.timezone)
