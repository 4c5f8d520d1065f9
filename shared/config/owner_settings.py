"""The owner's settings: the morning report and its alarms, and the owner's page (`hmem web`)."""

from __future__ import annotations

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from shared.config import values
from shared.config.values import AbsolutePath, ClockTime, listen_address


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
    web_listen: str = Field("127.0.0.1:8765", description="address and port of the owner's page (hmem web)")
    web_chats: str = Field("", description="chats that the owner's page shows, comma-separated; empty: all")
    web_tls_cert: AbsolutePath | None = Field(None, description="certificate of the owner's page, for other addresses")
    web_tls_key: AbsolutePath | None = Field(None, description="its private key")
    web_origin: str | None = Field(
        None, description="with a proxy that has TLS: how browsers reach the page, such as https://memory.example.org"
    )
    web_proxy: str = Field(
        "", description="IP address of that proxy, from which alone the page may then be asked, such as 127.0.0.1"
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

    @field_validator("web_chats")
    @classmethod
    def _web_chats(cls, value: str) -> str:
        values.named_chats(value)
        return value

    @field_validator("web_proxy")
    @classmethod
    def _web_proxy(cls, value: str) -> str:
        return values.ip_address(value)

    @field_validator("web_listen")
    @classmethod
    def _web_listens(cls, value: str) -> str:
        listen_address(value)
        return value.strip()

    @field_validator("heartbeat_url", "web_origin", mode="before")
    @classmethod
    def _blank_url(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("heartbeat_url", "web_origin")
    @classmethod
    def _owner_url(cls, value: str | None, info: ValidationInfo) -> str | None:
        example = "https://hc-ping.com/…" if info.field_name == "heartbeat_url" else "https://memory.example.org"
        return None if value is None else values.http_url(value, example).rstrip("/")
