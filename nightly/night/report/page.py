"""The last nights as one page: everything is in the file, nothing is fetched, no script runs. Chat ids in it are other people's text."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from nightly.night.report import charts
from nightly.night.report.refused import RefusedCount
from nightly.night.report.words import MIRRORS, headline, known_size, lines_of, result_of, span
from shared.text.format import shorten, time_text, zoned_text

#: Chats in the ledger, the largest first, and the longest chat id.
SHOWN_CHATS, CHAT_CHARACTERS = 500, 60


@dataclass(frozen=True)
class ChatLedger:
    """The accounts of the chats that one night has done: names of the columns, and for each chat its counts ("-": not known)."""

    run: int
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(
    nights: Sequence[Mapping[str, Any]],
    accounts: Mapping[int, str],
    refused: Sequence[RefusedCount],
    ledger: ChatLedger | None,
    zone: ZoneInfo,
) -> str:
    """The HTML. `nights` as `read_report` gives them, `accounts`: run → what became of the archived turns, in one line."""
    environment = Environment(
        loader=PackageLoader("nightly.night.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    title, below = headline(nights, zone)
    rows = [_row(night, accounts, zone) for night in reversed(nights)]
    return environment.get_template("page.html.j2").render(
        title=title,
        below=below,
        made=zoned_text(time.time(), zone),
        last=list(lines_of(nights[-1], zone)) if nights else [],
        charts=charts.charts_of(nights, zone),
        frame=charts,
        night_columns=list(rows[0]) if rows else [],
        night_rows=[list(row.values()) for row in rows],
        refused_rows=[[str(one.run), one.what, f"{one.count:,}", one.reason] for one in reversed(refused)],
        ledger=ledger and ChatLedger(ledger.run, ledger.columns, _shown(ledger)),
        hidden=max(0, len(ledger.rows) - SHOWN_CHATS) if ledger else 0,
    )


def _shown(ledger: ChatLedger) -> list[list[str]]:
    return [[shorten(chat, CHAT_CHARACTERS), *counts] for chat, *counts in ledger.rows[:SHOWN_CHATS]]


def _row(night: Mapping[str, Any], accounts: Mapping[int, str], zone: ZoneInfo) -> dict[str, str]:
    """A night for the table of all of them, by column."""
    gate, failed = night["gate"], night["failed"]
    counts = ("exported", "new", "new_versions", "already_archived", "quarantined", "refused_tombstones", "deleted")
    return {
        "night": str(night["run"]),
        "ended": time_text(night["finished_at"], zone),
        "result": f"{result_of(night)}: {failed['sentence']}" if failed else "good",
        "took": span(night["seconds"]),
        **{name.replace("_", " "): f"{night[name]:,}" for name in counts},
        "gate": f"{gate['found']} of {gate['asked']}" if gate else "-",
        "release": known_size(night["release_bytes"]),
        "sent": known_size(night["moved"]),
        "free disk": known_size(night["free_bytes"]),
        "mirror": MIRRORS.get(night["mirror"], "-").partition(":")[0],
        "turns in the archive": accounts.get(night["run"], f"{night['turns']:,}"),
    }
