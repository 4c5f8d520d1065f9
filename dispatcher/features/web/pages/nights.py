"""*Nights*: what each did, the releases, and what can be done about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import orjson
from redis.exceptions import RedisError
from starlette.responses import Response

from dispatcher.features.web.requests.asked import Asked, NotShown, go_to
from dispatcher.releases.manage import list_releases
from dispatcher.releases.night_command import NightCommandFailed, read_json
from shared.errors import InvalidInput, ReleaseRefused
from shared.wire import keys


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
        return orjson.dumps(self).decode()


def night_charts(nights: Sequence[Mapping[str, Any]], zone: ZoneInfo) -> list[PagePlot]:
    """Turns, duration by step, sizes and the gate's questions of finished nights, oldest first; none of fewer than two. For the browser's plot
    library, and the same as a table for who sees no picture. No words of a chat are in them."""
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


#: The newest nights that are read, and chats in the table of one night's ledger.
NIGHTS, SHOWN_CHATS = 30, 200
LEDGER = ("archived", "with_chunks", "forgotten", "without_text", "chunks", "keywords", "vectors", "not_embedded")
RUNNING = "A night is running already. Wait until it has ended."


def page(asked: Asked) -> Response:
    nights, notes = _nights(asked)
    shown, elsewhere = [_line(night) for night in nights], _running_elsewhere(asked)
    if elsewhere and shown and shown[-1]["state"] in ("unfinished", "stopped"):
        shown[-1]["state"] = "running"
    releases, wrong = _releases(asked)
    return asked.page(
        "nights.html",
        "Nights",
        nights=shown[::-1],
        charts=night_charts([night for night in shown if night["summary"]], asked.zone),
        releases=releases[::-1],
        wrong=wrong,
        running=asked.jobs.running("night"),
        elsewhere=elsewhere,
        notes=notes,
    )


def _running_elsewhere(asked: Asked) -> bool:
    """Whether a night holds the lease, whoever started it: cron, a terminal, or this page."""
    try:
        return bool(asked.redis.exists(keys.NIGHT_OWNER))
    except RedisError:
        return False  # Today says that Redis does not answer


def _releases(asked: Asked) -> tuple[list[Any], str | None]:
    try:
        return list_releases(asked.settings.hmem_memory_dir)
    except (OSError, ReleaseRefused) as error:
        return [], f"The releases cannot be read: {error}"


def _nights(asked: Asked) -> tuple[list[dict[str, Any]], list[str]]:
    """Those of this host, oldest first; the door to the night's files is its own command."""
    if not asked.settings.hmem_night_dir.exists():
        where = "On this host there is no HMEM_NIGHT_DIR: nights run on another one, and are shown there by hmem-night status."
        return [], [where]
    try:
        return read_json(asked.settings, "status", "--json", f"--nights={NIGHTS}"), []
    except NightCommandFailed as error:
        return [], [error.sentence or str(error)]


def _line(night: Mapping[str, Any]) -> dict[str, Any]:
    summary, failed = night["summary"], night["failed"]
    whole = sum(summary["seconds"].values()) if summary and "seconds" in summary else None
    state = "done" if summary else "stopped" if failed else "unfinished"
    if summary and "abandoned" in summary:
        state = "abandoned"
    return {**night, "state": state, "whole": whole}


def one(asked: Asked) -> Response:
    run = asked.number("run", 0)
    nights, _ = _nights(asked)
    found = [night for night in nights if night["run"] == run]
    if not found and nights and run < nights[0]["run"]:
        found = read_json(asked.settings, "status", "--json", f"--run={run}")
    if not found:
        raise NotShown
    night = _line(found[0])
    accounts = (night["steps"].get("chunk") or {}).get("accounts") or {}
    indexed = (night["steps"].get("build") or {}).get("indexed") or {}
    rows = [{"chat": chat, **account, **indexed.get(chat, {})} for chat, account in accounts.items()]
    rows.sort(key=lambda row: (-(row.get("archived") or 0), row["chat"]))
    return asked.page(
        "night.html",
        f"Night {run}",
        night=night,
        rows=rows[:SHOWN_CHATS],
        chats=len(rows),
        columns=LEDGER,
        texts=_texts(night["summary"] or {}),
    )


#: What a summary counts by reason, and what that means.
REASONS = {
    "reasons": "quarantined",
    "refused_tombstones": "tombstones that were refused",
    "not_embedded": "not embedded, found by keyword only",
    "without_model": "summaries without the model",
    "without_notes": "groups of turns without notes of the model",
    "without_summary": "chats without a summary",
}


def _texts(summary: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(what, reason, how many) of everything that was refused or left out."""
    found = [
        (what, reason, count) for name, what in REASONS.items() for reason, count in (summary.get(name) or {}).items()
    ]
    gate = summary.get("gate") or {}
    found += [("gate", str(gate[name]), "") for name in ("warn", "refuse") if gate.get(name)]
    return found


def run(asked: Asked) -> Response:
    if asked.jobs.running("night") is not None:
        raise InvalidInput(RUNNING)
    arguments = ["run", "--accept"] if asked.value("accept") else ["run"]
    title = "A night that accepts a release that finds less" if asked.value("accept") else "A night"
    return go_to(f"/jobs/{asked.jobs.night(title, 'night', *arguments)}")


def use_release(asked: Asked) -> Response:
    wanted = asked.number("run", 0)
    return go_to(f"/jobs/{asked.jobs.day(f'Back to release {wanted}', 'release', 'release', 'rollback', str(wanted))}")


def unpin(asked: Asked) -> Response:
    return go_to(f"/jobs/{asked.jobs.day('Remove the pin', 'release', 'release', 'rollback', '--unpin')}")
