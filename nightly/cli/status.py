"""Reports on the nights of this host for the owner: `hmem-night status`, and the closing summary of a night."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from nightly.archive.media.bring import OUTCOMES
from nightly.night.failure import FAILED, raise_alarm
from nightly.night.folder import DONE, nights_dir, read_record, step_result
from nightly.night.ledger import ENDS, INDEXED, chat_rows, totals
from shared.config.settings import Settings
from shared.system.command import answer
from shared.text.format import counted, shorten, size_text, zoned_text
from shared.text.templates import templates

#: Nights that are shown, and chats in the table of one.
SHOWN_NIGHTS, SHOWN_CHATS = 10, 50
#: Longest chat id in a table, and width of one that is not drawn.
CHAT_CHARACTERS, PLAIN_WIDTH = 40, 1000

#: Outcomes of files of messages, as they are called.
_WORDS = {"already_archived": "already archived", "waiting": "waiting for their turns", "vanished": "gone from Redis"}
_TEMPLATES = templates("nightly.cli", ".", trim_blocks=True, lstrip_blocks=True)

COLUMNS = ("chat", "turns", "in chunks", "forgotten", "without text", "chunks", "keywords", "vectors", "not embedded")


def read_nights(settings: Settings, runs: Iterable[int], *, chats: bool = False) -> list[dict[str, Any]]:
    """These nights of this host: `run`, `summary` of a closed one, `failed`, `ledger`, and `steps` (of one that was not finished the names of the
    steps that are done); with `chats` also the account of each chat, of which there may be thousands."""
    nights = []
    for run in runs:
        folder = nights_dir(settings) / str(run)
        summary, failed = read_record(folder / DONE), read_record(folder / FAILED)
        if summary and "ledger" in summary:
            results, ledger = {}, summary["ledger"]
        else:  # unfinished, or abandoned
            results = _results(settings, run)
            ledger = totals(results)
        night = {"run": run, "summary": summary, "failed": failed, "ledger": ledger, "steps": list(results)}
        nights.append(night | ({"chats": accounts_of(settings, run)} if chats else {}))
    return nights


def _results(settings: Settings, run: int) -> dict[str, Any]:
    """Those of the steps that this night has done."""
    from nightly.pipeline import step_names  # late: it loads every step of the night

    results = ((name, step_result(settings, run, name)) for name in step_names())
    return {name: result for name, result in results if result is not None}


def accounts_of(settings: Settings, run: int) -> list[dict[str, Any]]:
    """The accounts of the chats that this night has done; none of one that built nothing, or has not come so far."""
    chunk, build = (step_result(settings, run, name) or {} for name in ("chunk", "build"))
    return chat_rows(chunk, build) if "accounts" in chunk else []


def night_text(night: Mapping[str, Any], zone: ZoneInfo) -> str:
    """One night for `hmem-night status`: its summary, its ledger, and where it stopped."""
    said = sentence(night["summary"]) if night["summary"] else ""
    template = _TEMPLATES.get_template("status.txt.j2")
    return template.render(**night, sentence=said, zoned=lambda at: zoned_text(at, zone)).rstrip()


def brief_sentence(summary: Mapping[str, Any]) -> str:
    """What a night means for whoever has imported something."""
    if "abandoned" in summary:
        return sentence(summary)
    became = "The bot can recall it now." if summary["published"] else "Nothing changed."
    if summary["pinned"] is not None:
        became = f"Release {summary['pinned']} stays in use, as it is pinned: hmem release rollback --unpin ends that."
    return f"{became} (Night {summary['run']}, {sum(summary['seconds'].values()):.0f} s; hmem-night status has its figures.)"


def sentence(summary: Mapping[str, Any]) -> str:
    """The summary of a finished night, or why it was abandoned."""
    media = summary.get("media", {})
    outcomes = " + ".join(f"{media[name]} {_WORDS.get(name, name)}" for name in OUTCOMES if media.get(name))
    more = {
        "skipped": Counter((one["chat_id"], one["reason"]) for one in summary.get("set_aside", {}).values()),
        "outcomes": outcomes,
        "files": lambda count: counted(count, "file of messages", "files of messages"),
        "short": lambda chat: shorten(chat, CHAT_CHARACTERS),
        "size": size_text,
    }
    return _TEMPLATES.get_template("night.txt.j2").render(**summary, **more).rstrip()


def tell_nights(summaries: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    """Print what these nights have done, and raise what went wrong in the last one."""
    answer(summaries, "\n".join(map(sentence, summaries)), json=json)
    raise_alarm(summaries)


def print_chats(settings: Settings, runs: Sequence[int]) -> None:
    """Print the accounts of the last of these nights that built something, by chat: a table on a terminal, plain columns elsewhere."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    done = ((run, rows) for run in reversed(runs) if (rows := accounts_of(settings, run)))
    run, rows = next(done, (0, []))
    if not rows:
        sys.stdout.write("No night has made chunks on this host yet.\n")
        return
    drawn, names = sys.stdout.isatty(), ("archived", *ENDS, "chunks", *INDEXED)
    table = Table(box=box.HEAVY_HEAD if drawn else None, pad_edge=drawn)
    for number, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if number else "left", no_wrap=not drawn)
    for row in rows[:SHOWN_CHATS]:
        counts = ("-" if row[name] is None else str(row[name]) for name in names)
        table.add_row(shorten(row["chat"], CHAT_CHARACTERS), *counts)
    title = f"Night {run}, {counted(len(rows), 'chat')}"
    Console(width=None if drawn else PLAIN_WIDTH).print(title, table, sep="\n", markup=False, highlight=False)
    if len(rows) > SHOWN_CHATS:
        sys.stdout.write(f"Smaller chats are not shown ({len(rows) - SHOWN_CHATS}); --chats --json lists all.\n")
