"""The setting of the metrics."""

from __future__ import annotations

from typing import Annotated

from shared.config.feature_settings import FeatureSettings
from shared.config.values import accepted_by, listen_address


class MetricsSettings(FeatureSettings):
    metrics_listen: Annotated[str, accepted_by(listen_address)] = ""
    """address and port for Prometheus, such as 127.0.0.1:9464"""
