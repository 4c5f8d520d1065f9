"""Metrics for Prometheus, served by each dispatcher where METRICS_LISTEN says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core
    from dispatcher.features.metrics.part import MetricsPart
    from dispatcher.health.findings import Check


@hook
def checks() -> Sequence[Check]:
    from dispatcher.features.metrics.check import check_metrics
    from dispatcher.health.findings import Check

    return [Check("metrics", check_metrics, needs=("redis",))]


@hook
def dispatcher(core: Core) -> MetricsPart | None:
    from dispatcher.features.metrics.settings import MetricsSettings

    if not core.settings.of(MetricsSettings).metrics_listen:
        return None
    from dispatcher.features.metrics.part import MetricsPart

    return MetricsPart(core.settings)
