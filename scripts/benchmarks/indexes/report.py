"""How `scripts/bench indexes` is told: the machine, two tables (by night, by day), one JSON document."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from scripts.benchmarks.indexes.corpus import CHATS_ASKED
from scripts.benchmarks.indexes.measure import K, Plan, Row

LIBRARIES = ("hcli-memory", "numpy", "chromadb", "lancedb", "qdrant-client", "redis", "onnxruntime")


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(int((_field(Path("/proc/meminfo"), "MemTotal") or "0 kB").split()[0]) / 1e6, 1),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "libraries": {name: version for name in LIBRARIES if (version := _version(name))},
    }


def _field(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), None)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def document(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "machine": machine(),
        "plan": asdict(plan) | {"k": K},
        "notes": notes(plan),
        "rows": [asdict(row) for row in rows],
    }


def notes(plan: Plan) -> list[str]:
    """How the numbers are meant."""
    chats = ", ".join(f"{turns:,} turns in {plan.chats_of(turns):,} chats" for turns in sorted(set(plan.turns)))
    return [
        "Seeded vectors around seeded centres: embedding so many texts takes hours, and tells nothing about an index.",
        f"Chats are of one size: {chats}. {plan.queries} questions, each near a turn, go to {CHATS_ASKED} chats (or all), one after the other.",
        "p50 / p99: half of the answers, and 99 of 100, were as fast. recall@10: share of the ten nearest of an exact search that were found. "
        "RSS: memory of the process that asks. ratio: next night over from nothing; at small sizes it is the start of a library that is measured.",
        f"search: the {K} nearest; whole chat: the similarity of every chunk of the chat, as a lookup asks; told: the share of them that has one. "
        "Both without the embedding of the question, and warm but for the first search.",
        f"next night: {plan.new:,} new turns, the index of before being there; moved: the bytes of rsync for that release (index and manifest). "
        "≥: the vectors that are uploaded to a server. Files are in the cache of the system; a server's own size and memory are not counted.",
    ]


def _number(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:,.{decimals}f}"


def _seconds(value: float | None) -> str:
    return _number(value, 3 if value is not None and value < 1 else 1)


def _mega(size: int | None) -> str:
    return "" if size is None else f"{size / 1e6:,.2f}"


def _both(pair: tuple[float, float] | None) -> str:
    return "" if pair is None else f"{pair[0]:.2f} / {pair[1]:.2f}"


def _ratio(row: Row) -> float | None:
    return row.next_build_seconds / row.rebuild_seconds if row.next_build_seconds and row.rebuild_seconds else None


#: The columns of each table, and how a row's cell is written.
Columns = Mapping[str, Callable[[Row], str]]
WHAT: Columns = {"turns": lambda row: f"{row.turns:,}", "backend": lambda row: row.backend}
NIGHT: Columns = {
    **WHAT,
    "build s": lambda row: _seconds(row.build_seconds),
    "MB": lambda row: _mega(row.bytes),
    "files": lambda row: _number(row.files, 0),
    "next night s": lambda row: _seconds(row.next_build_seconds),
    "from nothing s": lambda row: _seconds(row.rebuild_seconds),
    "ratio": lambda row: _number(_ratio(row), 2),
    "moved MB": lambda row: ("≥ " if row.moved_at_least else "") + _mega(row.moved_bytes),
    "remark": lambda row: "" if row.status == "measured" else f"{row.status}: {row.why}",
}
DAY: Columns = {
    **WHAT,
    "open s": lambda row: _seconds(row.open_seconds),
    "first ms": lambda row: _number(row.first_ms, 1),
    "search p50 / p99 ms": lambda row: _both(row.search_ms),
    "whole chat p50 / p99 ms": lambda row: _both(row.whole_chat_ms),
    "told": lambda row: "" if row.told is None else f"{row.told:.0%}",
    f"recall@{K}": lambda row: _number(row.recall, 3),
    "RSS MB": lambda row: "" if row.rss_bytes is None else f"{row.rss_bytes / 1e6:.0f}",
}


def markdown(told: dict[str, Any], rows: Sequence[Row]) -> str:
    """Heading, tables and notes."""
    about = told["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in about["libraries"].items())
    blocks = [
        f"Measured {about['date']} on {about['cores']} cores ({about['cpu']}), {about['memory_gb']:g} GB of memory.\n"
        f"Python {about['python']}, SQLite {about['sqlite']}, {libraries}."
    ]
    asked = [row for row in rows if row.search_ms is not None]
    for title, columns, shown in (("By night", NIGHT, rows), ("By day", DAY, asked)):
        if shown:
            lines = [[*columns], ["---"] * len(columns), *([cell(row) for cell in columns.values()] for row in shown)]
            cells = (" | ".join(one.replace("|", "\\|") for one in line) for line in lines)
            blocks += [f"**{title}**", "\n".join(f"| {line} |" for line in cells)]
    blocks.append("\n".join(f"* {note}" for note in told["notes"]))
    return "\n\n".join(blocks) + "\n"
