"""Metrics for Prometheus, served by each dispatcher where METRICS_LISTEN says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.hooks import hook

if TYPE_CHECKING:
    from dispatcher.answering.hooks import Core


@hook
def dispatcher(core: Core) -> object:
    from dispatcher.features.metrics.settings import MetricsSettings

    if not core.settings.of(MetricsSettings).metrics_listen:
        return None
    from dispatcher.features.metrics.part import MetricsPart

    return MetricsPart(core.settings)
