"""The settings of the owner's page."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.values import BlankIsUnset, HttpUrl, IpAddress


class WebSettings(FeatureSettings):
    web_origin: BlankIsUnset[HttpUrl] = Field(
        None, description="with a proxy that has TLS: how browsers reach the page, such as https://memory.example.org"
    )
    web_proxy: IpAddress = Field(
        "", description="IP address of that proxy, from which alone the page may then be asked, such as 127.0.0.1"
    )
