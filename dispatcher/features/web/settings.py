"""The settings of the owner's page."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.values import BlankIsUnset, HttpUrl, IpAddress


class WebSettings(FeatureSettings):
    web_origin: BlankIsUnset[HttpUrl] = Field(
        None, description="the page's address behind a TLS proxy, such as https://memory.example.org"
    )
    web_proxy: IpAddress = Field("", description="IP address of that proxy; no other may then ask")
