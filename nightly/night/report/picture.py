"""The picture of the last nights: `python -m nightly.night.report.picture NIGHTS.json PICTURE.png ZONE` (nightly/night/report/announce.py).

Four panels on a white ground, large enough for a phone. The colours are those of Okabe and Ito, told apart also by those who see fewer of them;
steps differ in lightness and order too, and a night that failed has a cross, not just a colour. matplotlib is imported here, late.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import orjson

from nightly.night.report.words import came_in, headline, span, step_shares
from shared.text.format import size_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Nights = Sequence[Mapping[str, Any]]

#: Inches and dots an inch: 900 by 600.
SIZE, DPI = (6.0, 4.0), 150
BLUE, RED, INK, QUIET, RULE = "#0072B2", "#D55E00", "#222222", "#666666", "#DDDDDD"
#: Steps from the longest on, and the rest of them.
STEP_COLORS, REST_COLOR = ("#0072B2", "#E69F00", "#56B4E9", "#7A3E9D"), "#BBBBBB"
STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#999999",
    "axes.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "hatch.linewidth": 0.5,
}


def picture(nights: Nights, zone: ZoneInfo) -> bytes:
    """As PNG. ModuleNotFoundError without matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.07, wspace=0.05, hspace=0.05, rect=(0, 0, 1, 0.87))
        figure = Figure(figsize=SIZE, dpi=DPI, facecolor="white", layout=layout)
        title, below = headline(nights, zone)
        figure.text(0.018, 0.945, title, fontsize=11.5, fontweight="bold")
        figure.text(0.018, 0.895, below, fontsize=8, color=QUIET)
        grid = figure.add_gridspec(2, 2)
        sizes = grid[1, 0].subgridspec(2, 1)
        panels: list[tuple[Axes, Callable[[Axes, Nights], None]]] = [
            (figure.add_subplot(grid[0, 0]), _turns),
            (figure.add_subplot(grid[0, 1]), _durations),
            (figure.add_subplot(sizes[0]), _release),
            (figure.add_subplot(sizes[1]), _disk),
            (figure.add_subplot(grid[1, 1]), _gate),
        ]
        for axes, draw in panels:
            axes.set_axisbelow(True)
            axes.grid(axis="y", color=RULE, linewidth=0.5)
            draw(axes, nights)
            _days(axes, nights, zone, shown=draw is not _release)
        written = io.BytesIO()
        figure.savefig(written, format="png", metadata={"Title": title, "Software": None})
    return written.getvalue()


def _heading(axes: Axes, text: str, last: str = "") -> None:
    axes.set_title(text, loc="left", fontsize=8.5, fontweight="bold", pad=4)
    if last:
        axes.set_title(last, loc="right", fontsize=8, color=BLUE, pad=4)


def _days(axes: Axes, nights: Nights, zone: ZoneInfo, *, shown: bool) -> None:
    """The day on which each night ended; every second or third where there are many."""
    axes.set_xlim(-0.6, max(len(nights), 7) - 0.4)
    every = 1 if len(nights) <= 7 else 2
    places = list(range(len(nights) - 1, -1, -every))[::-1]
    days = [datetime.fromtimestamp(nights[at]["finished_at"], zone) for at in places]
    names = [f"{day.day}" if at else f"{day.day}\n{day:%b}" for at, day in enumerate(days)]
    for at in range(1, len(days)):
        if days[at].month != days[at - 1].month:
            names[at] += f"\n{days[at]:%b}"
    axes.set_xticks(places, names if shown else [""] * len(places))


def _crosses(axes: Axes, nights: Nights) -> None:
    """On each night that failed."""
    failed = [at for at, night in enumerate(nights) if night["failed"]]
    if failed:
        height = axes.get_ylim()[1] * 0.06
        for color, width in (("white", 3.6), (RED, 1.6)):  # it stands on a bar, too
            axes.plot(failed, [height] * len(failed), "x", color=color, markersize=5.5, markeredgewidth=width, zorder=5)


def _turns(axes: Axes, nights: Nights) -> None:
    came = [came_in(night) for night in nights]
    axes.bar(range(len(nights)), came, width=0.72, color=BLUE)
    _from_zero(axes, came, least=4)
    _crosses(axes, nights)
    _heading(axes, "Turns that came in", f"last night {came[-1]:,}" if came else "")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    if any(night["failed"] for night in nights):
        _note(axes, "× failed")


def _durations(axes: Axes, nights: Nights) -> None:
    names, rows = step_shares(nights, len(STEP_COLORS))
    longest = max((night["seconds"] for night in nights), default=0.0)
    unit, divisor = (
        ("hours", 3600.0) if longest > 3 * 3600 else ("minutes", 60.0) if longest > 180 else ("seconds", 1.0)
    )
    below = [0.0] * len(nights)
    for at, name in enumerate(names):
        heights = [row[at] / divisor for row in rows]
        color = STEP_COLORS[at] if at < len(STEP_COLORS) else REST_COLOR
        axes.bar(range(len(nights)), heights, bottom=below, width=0.72, color=color, label=name)
        below = [low + high for low, high in zip(below, heights, strict=True)]
    _from_zero(axes, below, room=1.4)
    _crosses(axes, nights)
    _heading(axes, f"Duration by step, {unit}", span(nights[-1]["seconds"]) if nights else "")
    if names:
        axes.legend(
            loc="upper left", ncols=3, fontsize=6.8, frameon=False, handlelength=0.9, handletextpad=0.4, columnspacing=1.0,
            borderaxespad=0.1, borderpad=0.1, labelspacing=0.3,
        )  # fmt: skip


def _release(axes: Axes, nights: Nights) -> None:
    _sizes(axes, nights, "release_bytes", "Release")


def _disk(axes: Axes, nights: Nights) -> None:
    _sizes(axes, nights, "free_bytes", "Free disk")


def _sizes(axes: Axes, nights: Nights, name: str, title: str) -> None:
    known = [(at, night[name]) for at, night in enumerate(nights) if night[name] is not None]
    if known:
        axes.plot(*zip(*known, strict=True), color=BLUE, linewidth=1.4, marker="o", markersize=2.6)
        axes.fill_between([at for at, _ in known], [size for _, size in known], color=BLUE, alpha=0.12, linewidth=0)
    top = max((size for _, size in known), default=0) * 1.25 or 1
    axes.set_ylim(0, top)
    axes.set_yticks([0, top / 1.25], ["0", ""])  # the newest size is in the heading
    _heading(axes, title, size_text(known[-1][1]) if known else "")
    if not known:
        _nothing(axes, "not known yet")


def _gate(axes: Axes, nights: Nights) -> None:
    asked = [(at, night["gate"]) for at, night in enumerate(nights) if night["gate"] and night["gate"]["asked"]]
    places = [at for at, _ in asked]
    axes.bar(
        places,
        [gate["asked"] for _, gate in asked],
        width=0.72,
        color="white",
        edgecolor=RED,
        hatch="////",
        linewidth=0.8,
    )
    axes.bar(places, [gate["found"] for _, gate in asked], width=0.72, color=BLUE, edgecolor=BLUE, linewidth=0.8)
    for at, gate in asked:
        if lost := gate["asked"] - gate["found"]:
            axes.annotate(
                f"{lost}",
                (at, gate["asked"]),
                (0, 1.5),
                textcoords="offset points",
                ha="center",
                color=RED,
                fontsize=7.5,
            )
    _from_zero(axes, [gate["asked"] for _, gate in asked], least=4, room=1.3)
    _crosses(axes, nights)
    if any(gate["asked"] > gate["found"] for _, gate in asked):
        _note(axes, "▨ not found")
    last = asked[-1][1] if asked else None
    _heading(axes, "Questions of the gate", f"{last['found']} of {last['asked']} found" if last else "")
    if not asked:
        _nothing(axes, "none was asked yet")


def _note(axes: Axes, text: str) -> None:
    """What red stands for."""
    axes.annotate(text, (1, 1.0), xycoords="axes fraction", ha="right", va="top", color=RED, fontsize=7.5)


def _nothing(axes: Axes, why: str) -> None:
    axes.annotate(why, (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", color=QUIET)
    axes.set_yticks([])


def _from_zero(axes: Axes, values: Sequence[float], *, least: float = 0.0, room: float = 1.12) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_ylim(0, max([*values, least]) * room or 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=least > 0))


def main() -> None:
    source, target, zone = sys.argv[1:]
    Path(target).write_bytes(picture(orjson.loads(Path(source).read_bytes()), ZoneInfo(zone)))


if __name__ == "__main__":
    main()
