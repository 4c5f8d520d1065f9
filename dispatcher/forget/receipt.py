"""What a forgetting leaves behind: counts, times and ids, none of the words; and what the owner has yet to do where we cannot reach."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson

from dispatcher.forget.journal import Journal
from dispatcher.forget.layers.store import StoreLayer
from shared.system.files import make_dir, read_own, write_atomic
from shared.text.format import zoned_text

FOLDER = "receipts"


def receipt(
    journal: Journal, scan: dict[str, Any], stays: list[dict[str, str]], pending: list[str], *, accept: bool = False
) -> dict[str, Any]:
    """`accept`: the owner has looked at the places that the scan named."""
    scope = journal.scope
    return {
        "id": journal.forget_id,
        "asked": scope.asked.without_words(),
        "chats": scope.chats,
        "stones": [stone.tombstone_id for stone in scope.stones],
        "started_at": journal.started_at,
        "finished_at": time.time(),
        "complete": not pending and (accept or not (scan["found"] or scan["unreadable"])),
        "accepted": accept,
        "layers": journal.layers,
        "scan": scan,
        "stays": stays,
        "pending": pending,
    }


def write_receipt(state_dir: Path, record: dict[str, Any]) -> Path:
    path = make_dir(state_dir / FOLDER) / f"{record['id']}.json"
    write_atomic(path, orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")
    return path


def receipts(state_dir: Path) -> list[dict[str, Any]]:
    """All of them, oldest first."""
    folder = state_dir / FOLDER
    return [orjson.loads(read_own(path)) for path in sorted(folder.glob("[!.]*.json"))] if folder.is_dir() else []


def what_stays(
    redis: list[dict[str, str]], store: StoreLayer | None, kind: str, servers: list[str]
) -> list[dict[str, str]]:
    """Where the words may be that no command of ours reaches, with what the owner does about it.

    `redis`: what redis_files.py names of that kind. `servers` hold vectors.
    """
    stays = [*redis]
    stays += [
        _stays(
            f"snapshots, logs and backups of the {name} server that holds vectors",
            "it keeps what was removed until it rewrites its files; a vector is no text, but tells what the text was about",
            "rewrite or remove them there (Redis: BGREWRITEAOF)",
        )
        for name in servers
    ]
    if store and not store.database.is_sqlite:
        stays.append(
            _stays(
                f"the write-ahead log, replicas and dumps of PostgreSQL at {store.database.place}",
                "changes are kept there until the server reuses the space",
                "run CHECKPOINT and SELECT pg_switch_wal(), and remove archived log and dumps from before now",
            )
        )
    stays += [
        _stays(
            "backups that you made of any of these directories, and what hmem export or hmem-night export-archive wrote",
            "they are copies of your own",
            "remove or replace them",
        ),
        _stays(
            "memory of processes that the system has not used again, and what it has swapped out",
            "the dispatchers let go of their caches, and what is let go of is overwritten only bit by bit",
            "restart them (systemctl restart hmem-dispatcher), and an hmem mcp that you run yourself",
        ),
        _stays(
            "the chat in Telegram itself",
            "messages there are Telegram's and the person's",
            "delete them in the app, for both sides",
        ),
        _stays(
            "the logs of Claude's provider",
            "messages went there to be answered",
            "they expire by the provider's rules; ask for deletion there if that is not enough",
        ),
        _stays(
            "in our own files: the chat id, ids and times of the forgotten turns",
            "so that no import, retry or restored mirror brings them back",
            "nothing is to be done",
        ),
    ]
    if kind == "matching":
        stays.append(_stays("your shell's history", "the text was typed there", "remove the line (history -d)"))
    return stays


def _stays(what: str, why: str, do: str) -> dict[str, str]:
    return {"what": what, "why": why, "do": do}


def receipt_text(record: dict[str, Any], zone: Any) -> str:
    """For people."""
    lines = [f"Forgetting {record['id']}, {zoned_text(record['finished_at'], zone)}: " + _verdict(record)]
    lines += [f"  {layer:34} {_counts(counts)}" for layer, counts in sorted(record["layers"].items())]
    scan = record["scan"]
    lines.append(
        f"  looked for {scan['needles']} pieces in {scan['files']} files and values ({scan['bytes']:,} bytes); "
        f"{scan['also_said_elsewhere']} more are also said in what is kept"
    )
    if not scan["needles"]:
        lines.append("  all that was said there is said in what is kept, too, so the search proves nothing here")
    lines += [f"  still found: {one['place']} ({one['hits']})" for one in scan["found"]]
    lines += [f"  could not be read: {place}" for place in scan["unreadable"]]
    lines += [f"  pending: {sentence}" for sentence in record["pending"]]
    return "\n".join([*lines, "", *stays_lines(record["stays"])])


def stays_lines(stays: list[dict[str, str]]) -> list[str]:
    return ["What stays until you act:", *(f"  {one['what']}\n    {one['why']}: {one['do']}" for one in stays)]


def _verdict(record: dict[str, Any]) -> str:
    if record["complete"]:
        return "complete, as accepted." if record["accepted"] else "complete."
    if record["pending"]:
        return "incomplete. Run hmem forget --resume once that is mended."
    return "incomplete. Look at the places below; if other words only look alike there, hmem forget --resume --accept ends it."


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())
