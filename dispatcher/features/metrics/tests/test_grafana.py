"""deploy/grafana.json: a dashboard over the metrics that a dispatcher really exports, all of them and no others."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dispatcher.features.metrics.gauges import GAUGES
from dispatcher.features.metrics.part import MetricsPart
from shared.config.settings import load_settings
from tests.support.machine import free_port
from tests.support.world import REPOSITORY

DASHBOARD: dict[str, Any] = json.loads((REPOSITORY / "deploy" / "grafana.json").read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
EXPRESSIONS = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]


@pytest.fixture(scope="module")
def exported() -> dict[str, str]:
    """Name of every family → its type, from a scrape; and the gauges, which have no sample where nothing can be read."""
    place = f"127.0.0.1:{free_port()}"
    metrics = MetricsPart(load_settings(metrics_listen=place, redis_url="redis://127.0.0.1:1/0"))
    try:
        with urllib.request.urlopen(f"http://{place}/metrics", timeout=60) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
    finally:
        metrics.dispatcher_stopped()
    return dict.fromkeys(GAUGES, "gauge") | {family.name: family.type for family in families}


def family_of(name: str, exported: dict[str, str]) -> str | None:
    """The family that has a series of this name."""
    for suffix, kind in {"_total": "counter", **dict.fromkeys(("_bucket", "_sum", "_count"), "histogram")}.items():
        base = name.removesuffix(suffix)
        if base != name and exported.get(base) == kind:
            return base
    return name if exported.get(name) == "gauge" else None


def test_every_metric_of_the_dashboard_is_exported_and_each_of_ours_is_shown(exported: dict[str, str]) -> None:
    named = {name for one in EXPRESSIONS for name in re.findall(r"\b(?:hmem|process)_\w+", one)}
    named |= {"hmem_redis_up"} if "hmem_redis_up" in json.dumps(DASHBOARD["templating"]) else set()
    assert not [name for name in sorted(named) if family_of(name, exported) is None]
    shown = {family_of(name, exported) for name in named}
    ours = {name for name in exported if name.startswith("hmem_") and not name.endswith("_created")}
    assert ours == {one for one in shown if one and one.startswith("hmem_")}
