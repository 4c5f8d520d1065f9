"""The setting of the metrics."""

from __future__ import annotations

from pydantic import Field, field_validator

from shared.config.feature_settings import FeatureSettings
from shared.config.values import listen_address


class MetricsSettings(FeatureSettings):
    metrics_listen: str = Field("", description="address and port for Prometheus, such as 127.0.0.1:9464")

    @field_validator("metrics_listen")
    @classmethod
    def _listens(cls, value: str) -> str:
        if value.strip():
            listen_address(value)
        return value.strip()
