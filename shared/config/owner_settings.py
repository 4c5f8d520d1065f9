"""The owner's settings: the morning report and its alarms."""

from __future__ import annotations

from pydantic import BaseModel, Field, field_validator

from shared.config import values
from shared.config.values import ClockTime


class OwnerSettings(BaseModel):
    """A part of `Settings`."""

    report_chat: str = Field(
        "", description="id of the owner's chat, which gets the morning report and the alarms; empty: none"
    )
    report_at: ClockTime = Field("08:00", description="when the report and the digests are sent, in CHAT_TIMEZONE")
    heartbeat_url: str | None = Field(
        None,
        description="called after each good night, so that a host that is down is noticed elsewhere (healthchecks.io, Uptime Kuma)",
        repr=False,
    )

    @field_validator("report_chat", mode="before")
    @classmethod
    def _report_chat_as_text(cls, value: object) -> object:
        """The settings file may also have a number."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("report_chat")
    @classmethod
    def _report_chat_id(cls, value: str) -> str:
        if "," in value:
            raise ValueError("write one chat id, such as 9912")
        return values.chat_ids(value.strip())

    @field_validator("heartbeat_url", mode="before")
    @classmethod
    def _blank_url(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("heartbeat_url")
    @classmethod
    def _owner_url(cls, value: str | None) -> str | None:
        return None if value is None else values.http_url(value, "https://hc-ping.com/…").rstrip("/")
