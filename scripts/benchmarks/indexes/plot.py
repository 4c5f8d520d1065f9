"""The picture of `scripts/bench indexes`: one small panel a figure, one line a backend, named at its end. matplotlib is imported here, late.

The colours are those of Okabe and Ito that stand out from white, told apart also by those who see fewer of them; markers and names say the same.
The ground is white whatever is around it, so that it can be read on a dark page too.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scripts.benchmarks.indexes.measure import Row
from shared.config.settings import INDEXES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS, MARKS = ("#0072B2", "#D55E00", "#00805E", "#A3457D", "#4D4D4D"), "os^Dv"
LOOKS = dict(zip(INDEXES, zip(COLORS, MARKS, strict=True), strict=True))
PANELS: dict[str, Callable[[Row], float | None]] = {
    "build, seconds": lambda row: row.build_seconds,
    "size, MB": lambda row: None if row.bytes is None else row.bytes / 1e6,
    "moved for the next night, MB": lambda row: None if row.moved_bytes is None else row.moved_bytes / 1e6,
    "search, median ms": lambda row: row.search_ms[0] if row.search_ms else None,
    "whole chat, median ms": lambda row: row.whole_chat_ms[0] if row.whole_chat_ms else None,
    "memory, MB": lambda row: None if row.rss_bytes is None else row.rss_bytes / 1e6,
}
#: Least distance of two names, as a share of a panel's height.
APART = 0.085
#: Of values whose largest is less than so many times the smallest, the steps between powers of ten are shown too.
NARROW = 50
#: Under a name, so that it can be read where another line passes.
GROUND = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hmem",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
}


def plot(rows: Sequence[Row]) -> bytes:
    """The picture as SVG. ModuleNotFoundError without matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(10.5, 5.8), layout="constrained", facecolor="white")
        panels = figure.subplots(2, 3).flat
        for axes, (title, value) in zip(panels, PANELS.items(), strict=True):
            _panel(axes, title, _lines(rows, value))
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Title": "scripts/bench indexes"})
    return written.getvalue()


Lines = dict[str, tuple[list[int], list[float]]]


def _lines(rows: Sequence[Row], value: Callable[[Row], float | None]) -> Lines:
    found: Lines = {}
    for row in sorted(rows, key=lambda one: one.turns):
        if (measured := value(row)) is not None:
            turns, values = found.setdefault(row.backend, ([], []))
            turns.append(row.turns)
            values.append(measured)
    return found


def _panel(axes: Axes, title: str, lines: Lines) -> None:
    from matplotlib.ticker import LogLocator

    axes.set_title(title, loc="left", fontsize=10)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("turns")
    axes.margins(x=0.08, y=0.12)
    for backend, (turns, values) in lines.items():
        colour, marker = LOOKS[backend]
        axes.plot(turns, values, color=colour, marker=marker, markersize=4.5, linewidth=1.6)
    every = [value for _, values in lines.values() for value in values]
    narrow = bool(every) and max(every) < NARROW * min(every)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axes.yaxis.set_major_formatter(lambda shown, _: f"{shown:g}")
    sizes = sorted({turn for turns, _ in lines.values() for turn in turns})
    axes.set_xticks(sizes, [_short(turns) for turns in sizes])
    axes.minorticks_off()
    _name(axes, lines)


def _name(axes: Axes, lines: Lines) -> None:
    """Each line's backend beside its last point; names that would meet are moved apart, and the lowest stays."""
    to_share = axes.transScale + axes.transLimits
    ends: list[tuple[int, float, float, str]] = []
    for backend, (turns, values) in lines.items():
        along, height = to_share.transform((turns[-1], values[-1]))
        ends.append((turns[-1], float(along), float(height), backend))
    taken: dict[int, float] = {}
    for last, along, height, backend in sorted(ends):
        taken[last] = max(height, taken.get(last, -APART) + APART)
        more: dict[str, Any] = {"va": "center", "fontsize": 9, "color": LOOKS[backend][0], "bbox": GROUND}
        axes.annotate(backend, (along + 0.03, taken[last]), xycoords="axes fraction", annotation_clip=False, **more)


def _short(turns: int) -> str:
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if turns % unit == 0:
            return f"{turns // unit}{name}"
    return str(turns)
