"""Reports on the nights of this host for the owner: `hmem-night status`, and the closing summary of a night."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

from nightly.archive.media.bring import OUTCOMES
from nightly.night.failure import FAILED
from nightly.night.folder import DONE, nights_dir, read_record, step_result
from nightly.night.ledger import ENDS, INDEXED, chat_rows, totals
from shared.config.settings import Settings
from shared.text.format import counted, shorten, size_text, zoned_text

#: Nights that are shown, and chats in the table of one.
SHOWN_NIGHTS, SHOWN_CHATS, SHOWN_PLACES = 10, 50, 3
#: Longest chat id in a table, and width of one that is not drawn.
CHAT_CHARACTERS, PLAIN_WIDTH = 40, 1000

COLUMNS = ("chat", "turns", "in chunks", "forgotten", "without text", "chunks", "keywords", "vectors", "not embedded")


def read_nights(settings: Settings, runs: Iterable[int], *, chats: bool = False) -> list[dict[str, Any]]:
    """These nights of this host: `run`, `summary` of a closed one, `failed`, `ledger`, and `steps` (of one that was not finished the names of those
    that are done); with `chats` also the account of each chat, of which there may be thousands."""
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


def ledger_line(sums: Mapping[str, Any]) -> str:
    """`turns: 240 archived = 238 in 251 chunks + 1 forgotten + 1 without text; index: 251 keywords, 250 vectors + 1 not embedded`."""
    line = f"turns: {sums['archived']} archived"
    if "chunks" in sums:
        line += f" = {sums['with_chunks']} in {sums['chunks']} chunks + {sums['forgotten']} forgotten + {sums['without_text']} without text"
    if "keywords" not in sums:
        return line
    vectors = (
        "no vectors" if sums["vectors"] is None else f"{sums['vectors']} vectors + {sums['not_embedded']} not embedded"
    )
    return f"{line}; index: {sums['keywords']} keywords, {vectors}"


def night_lines(night: Mapping[str, Any], zone: ZoneInfo) -> list[str]:
    """One night for `hmem-night status`: its summary, its ledger, and where it stopped."""
    summary, failed = night["summary"], night["failed"]
    ledger = ledger_line(night["ledger"]) if night["ledger"] else None
    if summary is None:
        return [*_unfinished(night, zone), *([f"  {ledger}"] if ledger else [])]
    lines = [f"{zoned_text(summary['finished_at'], zone)}  {sentence(summary)}"]
    if ledger:
        lines.append(f"  {ledger}")
    if (gate := summary.get("gate") or {}).get("questions"):
        before = f"{gate['found_before']} in the release before"
        lines.append(f"  recall check: {gate['found_now']} of {gate['questions']} questions found ({before})")
    if seconds := summary.get("seconds"):
        lines.append("  took: " + ", ".join(f"{step} {taken:.2f} s" for step, taken in seconds.items()))
    if failed and failed["at"] >= summary["finished_at"]:
        lines.append(f"  alarm at {_stop(failed, zone)}")
    elif failed:
        how = "then it was abandoned" if "abandoned" in summary else "it was finished later"
        lines.append(f"  had stopped at {_stop(failed, zone)}\n  {how}")
    return lines


def _unfinished(night: Mapping[str, Any], zone: ZoneInfo) -> list[str]:
    failed, done = night["failed"], ", ".join(night["steps"]) or "nothing"
    if failed and failed["step"] not in night["steps"]:
        first = f"Night {night['run']} is unfinished, stopped at {_stop(failed, zone)}"
    else:
        first = f"Night {night['run']} is unfinished: it was interrupted, or is running now."
    return [first, f"  done: {done}; hmem-night run continues there"]


def _stop(failed: Mapping[str, Any], zone: ZoneInfo) -> str:
    return f"{failed['step']}, {zoned_text(failed['at'], zone)}: {failed['sentence']} (exit code {failed['exit_code']})"


def brief_sentence(summary: Mapping[str, Any]) -> str:
    """What a night means for whoever has imported something."""
    if "abandoned" in summary:
        return sentence(summary)
    held = f"Release {summary['pinned']} stays in use, as it is pinned: hmem release rollback --unpin ends that."
    became = (
        held
        if summary.get("pinned") is not None
        else "The bot can recall it now."
        if summary["published"]
        else "Nothing changed."
    )
    return f"{became} (Night {summary['run']}, {sum(summary['seconds'].values()):.0f} s; hmem-night status has its figures.)"


def sentence(summary: Mapping[str, Any]) -> str:
    """The summary of a finished night."""
    if "abandoned" in summary:
        return f"Night {summary['run']} was abandoned: {summary['abandoned']}."
    seconds = sum(summary["seconds"].values())
    text = (
        f"Night {summary['run']} done in {seconds:.1f} s: {summary['exported']} exported = {summary['new']} new + "
        f"{summary['new_versions']} new versions + {summary['already_archived']} already archived + {summary['quarantined']} quarantined; "
        f"{summary['deleted']} deleted from Redis, {summary['changed_since']} changed since the export and kept; "
        + (f"{summary['unproven']} missing from the current release and kept; " if summary["unproven"] else "")
        + _released(summary)
    )
    if warning := (gate := summary.get("gate") or {}).get("warn") or gate.get("refuse"):
        text += f"\n  {warning}"
    imported = summary.get("imported")
    lines = chain(
        [f"of these, {imported} turns were imported"] if imported else (),
        _forgotten(summary),
        (f"quarantined: {count} × {reason}" for reason, count in summary["reasons"].items()),
        media_lines(summary.get("media", {})),
        _without_chunks(summary),
        _without_model(summary),
    )
    return text + "".join(f"\n  {line}" for line in lines)


def _without_model(summary: Mapping[str, Any]) -> Iterator[str]:
    """What a model did not do; the next build requests it again."""
    for reason, count in summary.get("not_embedded", {}).items():
        yield f"not embedded, found by keyword only: {count} × {reason}"
    for reason, count in summary.get("without_model", {}).items():
        yield f"summary made of extracted sentences, without the model: {count} × {reason}"
    for reason, count in summary.get("without_notes", {}).items():
        yield f"turns without notes of the model: {count} groups × {reason}"
    if postponed := summary.get("notes", {}).get("postponed"):
        yield f"{postponed} groups of turns have no notes yet: the hour for them was over. The next night continues."


def _without_chunks(summary: Mapping[str, Any]) -> Iterator[str]:
    """What could not be processed, by chat: it is archived, and every build tries it again."""
    chats = Counter((one["chat_id"], one["reason"]) for one in summary.get("set_aside", {}).values())
    for (chat, reason), count in chats.items():
        name = shorten(chat, CHAT_CHARACTERS)
        yield f"skipped in chat {name}: {count} × a turn that cannot be chunked ({reason}); it stays archived. Please report it."
    for chat, reason in summary.get("without_summary", {}).items():
        yield f"no summary of chat {shorten(chat, CHAT_CHARACTERS)} ({reason}); its turns can be found. Please report it."


def _forgotten(summary: Mapping[str, Any]) -> Iterator[str]:
    """What a night did, and could not do, to erase what is to be forgotten permanently."""
    for reason, count in summary.get("refused_tombstones", {}).items():
        yield (
            f"refused: {count} × a tombstone in Redis ({reason}); it had no effect. Find out who may write to "
            "hcli:mem:tombstones, then remove it there; if it was yours, run hmem forget again"
        )
    if count := summary.get("only_hiding_tombstones"):
        yield (
            f"hidden, not erased: {count} × what is to be forgotten permanently, since this night has no owner key. "
            "Run hmem owner-key, and put the OWNER_PUBLIC_KEY that it prints into the night's settings"
        )
    if erased := summary.get("erased"):
        yield f"forgotten permanently: {erased} records erased from the archive"
    if found := summary.get("still_found"):
        more = f" and {len(found) - SHOWN_PLACES} more" if len(found) > SHOWN_PLACES else ""
        yield f"forgotten words are still in {', '.join(found[:SHOWN_PLACES])}{more}: check these files"
    if why := summary.get("not_pruned"):
        yield f"releases that hold forgotten words could not be removed; the next night tries again: {why}"
    if why := summary.get("not_swept"):
        yield f"indexes of removed releases may still be on a server; the next night tries again: {why}"
    for run in summary.get("held_by_readers", ()):
        yield f"release {run} holds forgotten words and is still in use; the next night removes it"


def _released(summary: Mapping[str, Any]) -> str:
    if not summary["published"]:
        return "nothing new to release."
    if (pinned := summary.get("pinned")) is not None:
        return f"published, but release {pinned} stays in use: it is pinned (hmem release rollback --unpin removes the pin)."
    moved = summary.get("moved")
    return f"released. {size_text(moved)} sent." if moved is not None else "released."


def print_chats(settings: Settings, runs: Sequence[int]) -> None:
    """Print the accounts of the last of these nights that built something, by chat: a table on a terminal, plain columns elsewhere."""
    done = ((run, rows) for run in reversed(runs) if (rows := accounts_of(settings, run)))
    run, rows = next(done, (0, []))
    if not rows:
        sys.stdout.write("No night has made chunks on this host yet.\n")
        return
    _print_table(f"Night {run}, {len(rows)} chats", COLUMNS, map(cells_of, rows[:SHOWN_CHATS]))
    if len(rows) > SHOWN_CHATS:
        sys.stdout.write(f"{len(rows) - SHOWN_CHATS} smaller chats are not shown; --chats --json lists all.\n")


def _print_table(title: str, columns: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """The first column is text, the others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    drawn = sys.stdout.isatty()
    table = Table(box=box.HEAVY_HEAD if drawn else None, pad_edge=drawn)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=not drawn)
    for row in rows:
        table.add_row(*row)
    Console(width=None if drawn else PLAIN_WIDTH).print(title, table, sep="\n", markup=False, highlight=False)


def cells_of(row: Mapping[str, Any]) -> list[str]:
    """The account of one chat, by COLUMNS; "-": not known."""
    names = ("archived", *ENDS, "chunks", *INDEXED)
    return [shorten(row["chat"], CHAT_CHARACTERS), *("-" if row[name] is None else str(row[name]) for name in names)]


# ── files of messages


#: Outcomes, as they are called.
_WORDS = {"already_archived": "already archived", "waiting": "waiting for their turns", "vanished": "gone from Redis"}
FILES = "file of messages", "files of messages"


def media_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """`counts`: the archive step's; nothing where there was none."""
    if counts.get("exported"):
        parts = [f"{counts[name]} {_WORDS.get(name, name)}" for name in OUTCOMES if counts[name]]
        yield f"{counted(counts['exported'], *FILES)} exported = {' + '.join(parts)}"
    if erased := counts.get("erased"):
        yield f"forgotten permanently: {counted(erased, *FILES)} removed from the archive"
    if lost := counts.get("lost_in_all"):
        verb = "is" if lost == 1 else "are"
        yield f"{counted(lost, *FILES)} {verb} lost: the turn says it is kept, and Redis did not have it (an import brings no files)"
    if not_kept := counts.get("not_kept"):
        yield f"not kept by day: {counted(not_kept, *FILES)}: no room for them, empty, or gone by then"
    if damaged := counts.get("damaged"):
        verb = "is" if len(damaged) == 1 else "are"
        yield f"{counted(len(damaged), *FILES)} {verb} damaged or missing in the archive, such as {damaged[0]}: run hmem-night verify"
    if refused := counts.get("refused"):
        yield f"refused: {refused} × what waits under hcli:mem:kept is not what its name says, and stays. Find out who wrote it, and delete it"
