"""The settings of the owner's page."""

from __future__ import annotations

from pydantic import Field, field_validator

from shared.config import values
from shared.config.feature_settings import FeatureSettings
from shared.config.values import BlankIsUnset, HttpUrl


class WebSettings(FeatureSettings):
    web_origin: BlankIsUnset[HttpUrl] = Field(
        None, description="with a proxy that has TLS: how browsers reach the page, such as https://memory.example.org"
    )
    web_proxy: str = Field(
        "", description="IP address of that proxy, from which alone the page may then be asked, such as 127.0.0.1"
    )

    @field_validator("web_proxy")
    @classmethod
    def _web_proxy(cls, value: str) -> str:
        return values.ip_address(value)
