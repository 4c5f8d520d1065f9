"""Charts: the numbers for the browser's plot library, and the same as a table for who sees no picture. No words of a chat are in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import orjson


@dataclass(frozen=True)
class Series:
    name: str
    values: list[float | None]


@dataclass(frozen=True)
class PagePlot:
    """`stacked`: the series add up; x are POSIX seconds."""

    title: str
    unit: str
    x: list[float]
    labels: list[str]
    series: list[Series]
    stacked: bool = False

    @property
    def data(self) -> str:
        """JSON for static/page.js."""
        return orjson.dumps(
            {
                "title": self.title,
                "unit": self.unit,
                "x": self.x,
                "stacked": self.stacked,
                "series": [{"name": one.name, "values": one.values} for one in self.series],
            }
        ).decode()


def night_charts(nights: Sequence[Mapping[str, Any]], zone: ZoneInfo) -> list[PagePlot]:
    """Turns, duration by step, sizes and the gate's questions of finished nights, oldest first; none of fewer than two."""
    done = [night["summary"] for night in nights if "seconds" in night["summary"]]
    if len(done) < 2:
        return []
    x = [one["finished_at"] for one in done]
    labels = [f"{one['run']}, {datetime.fromtimestamp(one['finished_at'], zone):%Y-%m-%d}" for one in done]
    steps = list(done[-1]["seconds"])

    def column(name: str) -> list[float | None]:
        return [one.get(name) for one in done]

    gates = [one.get("gate") or {} for one in done]
    charts = [
        PagePlot("Turns that came in", "turns", x, labels, [Series("new", column("new")), Series("deleted from Redis", column("deleted"))]),
        PagePlot(
            "Duration by step", "seconds", x, labels,
            [Series(step, [one["seconds"].get(step) for one in done]) for step in steps], stacked=True,
        ),
        PagePlot("Sizes", "bytes", x, labels, [Series("release", column("release_bytes")), Series("sent", column("moved"))]),
        PagePlot(
            "The gate's questions", "questions", x, labels,
            [Series("asked", [gate.get("questions") for gate in gates]), Series("found", [gate.get("found_now") for gate in gates])],
        ),
    ]  # fmt: skip
    return [chart for chart in charts if any(value is not None for one in chart.series for value in one.values)]
