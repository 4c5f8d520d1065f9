"""The charts of the page, as shapes that its template draws: SVG by itself follows the reader's dark or light, and needs no library.

Each chart also has all of its numbers as a table, which is what a screen reader gets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from nightly.night.report.words import came_in, known_size, span, step_shares
from shared.text.dates.calendar_words import ENGLISH
from shared.text.format import date_text, size_text

Nights = Sequence[Mapping[str, Any]]

#: Size of a drawing, and the edges of its plot, in units of the drawing.
WIDTH, HEIGHT = 480.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 68.0, 468.0, 12.0, 190.0
#: Most steps with a colour of their own; the others are one.
STEPS_SHOWN = 4
#: Names of days below a drawing.
MOST_DAYS = 5


@dataclass(frozen=True)
class Bar:
    """`kind` is its class in the style sheet, `label` what is said of it under the pointer."""

    x: float
    y: float
    width: float
    height: float
    kind: str
    label: str


@dataclass(frozen=True)
class Chart:
    """`about`: what the drawing shows, in one sentence. `legend`: (class, name). `columns` and `rows`: the same as a table."""

    name: str
    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    heights: Sequence[tuple[float, str]]
    days: Sequence[tuple[float, str]]
    bars: Sequence[Bar] = ()
    line: Sequence[tuple[float, float]] = ()
    crosses: Sequence[tuple[float, float]] = ()
    legend: Sequence[tuple[str, str]] = field(default_factory=tuple)


def charts_of(nights: Nights, zone: ZoneInfo) -> list[Chart]:
    """All of them; none without nights."""
    if not nights:
        return []
    return [
        _turns(nights, zone),
        _durations(nights, zone),
        _sizes(nights, zone, "release", "Size of the release", "release_bytes"),
        _sizes(nights, zone, "disk", "Free on the night's disk", "free_bytes"),
        _gate(nights, zone),
    ]


def _turns(nights: Nights, zone: ZoneInfo) -> Chart:
    came = [float(came_in(night)) for night in nights]
    scale = Scale.to(max(came), len(nights), whole=True)
    bars = [scale.bar(at, 0, count, "c1", f"{nights[at]['run']}: {count:,.0f}") for at, count in enumerate(came)]
    failed = any(night["failed"] for night in nights)
    return Chart(
        "turns",
        "Turns that came in",
        f"Bars, one a night: {came[-1]:,.0f} turns in the last one, {max(came):,.0f} at most.",
        ("night", "ended", "new", "new versions", "chats with news", "result"),
        [
            (*_who(night, zone), *(f"{night[name]:,}" for name in ("new", "new_versions", "chats")), "failed" if night["failed"] else "good")
            for night in nights
        ],
        scale.heights(lambda value: f"{value:,.0f}"),
        _days(nights, zone, scale),
        bars,
        crosses=_crosses(nights, scale),
        legend=[("bad", "× failed")] if failed else [],
    )  # fmt: skip


def _durations(nights: Nights, zone: ZoneInfo) -> Chart:
    names, shares = step_shares(nights, STEPS_SHOWN)
    kinds = [f"c{at + 1}" for at in range(len(names))]
    scale = Scale.to(max(night["seconds"] for night in nights), len(nights), time=True)
    bars = []
    for at, row in enumerate(shares):
        below = 0.0
        for kind, name, seconds in zip(kinds, names, row, strict=True):
            if seconds:
                bars.append(scale.bar(at, below, seconds, kind, f"{nights[at]['run']}, {name}: {span(seconds)}"))
            below += seconds
    steps = list(dict.fromkeys(name for night in nights for name in night["steps"]))
    return Chart(
        "durations",
        "Duration by step",
        f"Stacked bars, one a night: the last one took {span(nights[-1]['seconds'])}.",
        ("night", "ended", "all", *steps),
        [
            (*_who(night, zone), span(night["seconds"]), *(span(night["steps"][name]) if name in night["steps"] else "-" for name in steps))
            for night in nights
        ],
        scale.heights(_short_time),
        _days(nights, zone, scale),
        bars,
        crosses=_crosses(nights, scale),
        legend=list(zip(kinds, names, strict=True)),
    )  # fmt: skip


def _sizes(nights: Nights, zone: ZoneInfo, name: str, title: str, column: str) -> Chart:
    known = [(at, night[column]) for at, night in enumerate(nights) if night[column] is not None]
    scale = Scale.to(max((size for _, size in known), default=0), len(nights), binary=True)
    about = (
        f"A line: {size_text(known[-1][1])} after the last night that is known." if known else "No size is known yet."
    )
    more = {"sent to the day host": "moved"} if column == "release_bytes" else {}
    return Chart(
        name,
        title,
        about,
        ("night", "ended", "bytes", *more),
        [(*_who(night, zone), *(known_size(night[one]) for one in (column, *more.values()))) for night in nights],
        scale.heights(lambda value: size_text(round(value)).replace(".0 ", " ") if value else "0"),
        _days(nights, zone, scale),
        line=[(scale.middle(at), scale.y(size)) for at, size in known],
    )


def _gate(nights: Nights, zone: ZoneInfo) -> Chart:
    asked = [(at, night["gate"]) for at, night in enumerate(nights) if night["gate"] and night["gate"]["asked"]]
    scale = Scale.to(max((gate["asked"] for _, gate in asked), default=0), len(nights), whole=True)
    bars = []
    for at, gate in asked:
        lost = gate["asked"] - gate["found"]
        label = f"{nights[at]['run']}: {gate['found']} of {gate['asked']} found"
        bars.append(scale.bar(at, 0, gate["found"], "c1", label))
        if lost:
            bars.append(scale.bar(at, gate["found"], lost, "lost", label))
    last = asked[-1][1] if asked else None
    about = "No questions were asked yet."
    if last:
        about = f"Bars, one a night: the last time {last['found']} of {last['asked']} questions found their answer in the new release."
    return Chart(
        "gate",
        "Questions of the gate",
        about,
        ("night", "ended", "asked", "found"),
        [(*_who(night, zone), *((str(night["gate"][one]) if night["gate"] else "-") for one in ("asked", "found"))) for night in nights],
        scale.heights(lambda value: f"{value:,.0f}"),
        _days(nights, zone, scale),
        bars,
        crosses=_crosses(nights, scale),
        legend=[("c1", "found"), ("lost", "not found")] if asked else [],
    )  # fmt: skip


@dataclass(frozen=True)
class Scale:
    """From a night's place and a value to units of the drawing; `step` is the distance of two labelled heights."""

    top: float
    step: float
    nights: int

    @classmethod
    def to(cls, most: float, nights: int, *, whole: bool = False, time: bool = False, binary: bool = False) -> Scale:
        """With about four labelled heights up to `most`, which is at least 1 where it counts."""
        most = max(most, 4 if whole else 1)
        unit = 1.0
        if time:
            unit = 3600 if most > 3 * 3600 else 60 if most > 180 else 1
        elif binary:
            unit = 1024.0 ** min(3, int(math.log(most, 1024)))
        step = _round_step(most / unit / 4) * unit
        return cls(math.ceil(most / step) * step, max(step, 1.0) if whole else step, nights)

    @property
    def _share(self) -> float:
        return (RIGHT - LEFT) / max(self.nights, 7)

    def middle(self, at: int) -> float:
        return round(LEFT + (at + 0.5) * self._share, 1)

    def y(self, value: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * min(1.0, value / self.top), 1)

    def bar(self, at: int, below: float, value: float, kind: str, label: str) -> Bar:
        width, upper = round(self._share * 0.74, 1), self.y(below + value)
        return Bar(round(self.middle(at) - width / 2, 1), upper, width, round(self.y(below) - upper, 1), kind, label)

    def heights(self, text: Callable[[float], str]) -> list[tuple[float, str]]:
        count = round(self.top / self.step)
        return [(self.y(at * self.step), text(at * self.step)) for at in range(count + 1)]


def _round_step(least: float) -> float:
    """1, 2 or 5 times a power of ten, at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= least * 0.999)


def _short_time(seconds: float) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s" if seconds else "0"


def _crosses(nights: Nights, scale: Scale) -> list[tuple[float, float]]:
    return [(scale.middle(at), BOTTOM - 9) for at, night in enumerate(nights) if night["failed"]]


def _days(nights: Nights, zone: ZoneInfo, scale: Scale) -> list[tuple[float, str]]:
    every = math.ceil(len(nights) / MOST_DAYS)
    days = []
    for at in range(len(nights) - 1, -1, -every):
        day = datetime.fromtimestamp(nights[at]["finished_at"], zone)
        days.append((scale.middle(at), f"{day.day} {ENGLISH.months[day.month - 1][:3]}"))
    return days[::-1]


def _who(night: Mapping[str, Any], zone: ZoneInfo) -> tuple[str, str]:
    return str(night["run"]), date_text(night["finished_at"], zone)
