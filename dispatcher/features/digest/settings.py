"""What the owner is told by message, and when."""

from __future__ import annotations

from datetime import date
from datetime import time as clock
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator

from shared.config.feature_settings import REPORTS, FeatureSettings, Touched
from shared.config.values import BlankIsUnset, ChatIds, ClockTime, HttpUrl
from shared.text.dates.calendar_days import instant

if TYPE_CHECKING:
    from shared.config.settings import Settings


class DigestSettings(FeatureSettings):
    report_chat: Annotated[ChatIds, Touched(REPORTS, by_hand=True)] = Field(
        "", description="id of your chat, for the morning report and the alarms"
    )
    report_at: Annotated[ClockTime, Touched(REPORTS)] = Field(
        "08:00", description="when report and digests are sent, in CHAT_TIMEZONE"
    )
    heartbeat_url: Annotated[BlankIsUnset[HttpUrl], Touched(REPORTS, by_hand=True)] = Field(
        None,
        description="called after each night, so that a service elsewhere notices silence (healthchecks.io, Uptime Kuma)",
        repr=False,
    )

    @field_validator("report_chat")
    @classmethod
    def _one_chat(cls, value: str) -> str:
        if "," in value:
            raise ValueError("write one chat id, such as 9912")
        return value.strip()


def report_due(settings: Settings, day: date) -> float:
    """When the report and the digests of a day are due (REPORT_AT), in POSIX seconds."""
    return instant(day, clock.fromisoformat(settings.of(DigestSettings).report_at), settings.timezone)
