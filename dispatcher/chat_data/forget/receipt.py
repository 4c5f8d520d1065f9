"""The receipt of a forgetting: counts, times and ids, none of the text; and what the owner has to do where no command reaches."""

from __future__ import annotations

import time
import tomllib
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import orjson

from dispatcher.chat_data.forget.archive_part import NightPart
from dispatcher.chat_data.forget.journal import Journal
from dispatcher.chat_data.forget.layers.store import StoreLayer
from dispatcher.chat_data.forget.request import ForgetRequest
from dispatcher.chat_data.forget.select import Selection
from dispatcher.memory.store.whose import said_by
from shared.config.settings import Settings
from shared.system.files import make_dir, read_own, write_atomic
from shared.text.format import counted, date_text, one_line, shorten, time_text, zoned_text
from shared.text.templates import templates
from shared.vectors.on_server import servers

#: How many texts are shown, and how many characters of each.
SHOWN, CHARACTERS = 10, 120
_TEMPLATES = templates("dispatcher.chat_data.forget", trim_blocks=True, lstrip_blocks=True)


def preview(selection: Selection, night: NightPart, stays: list[dict[str, str]]) -> dict[str, Any]:
    """`stays`: what no command can remove. `days`: day → its turns."""
    turns = sorted(selection.turns.items(), key=lambda item: item[1][0])
    running = sum(bool(one.worker) for one in selection.tasks)
    return {
        "asked": selection.scope.asked.to_json(),
        "chats": selection.scope.chats,
        "turns": len(turns),
        "first": turns[0][1][0] if turns else None,
        "last": turns[-1][1][0] if turns else None,
        "days": dict(Counter(date_text(at, night.settings.timezone) for _, (at, _) in turns)),
        "texts": [
            {"chat_id": chat_id, "turn_id": turn_id, "at": at, "text": _short(text)}
            for (chat_id, turn_id), (at, text) in turns[:SHOWN]
        ],
        "memories": [
            {"chat_id": memory.chat_id, "number": memory.number, "type": str(memory.type), "text": _short(memory.text)}
            | said_by(memory)
            for memory in selection.memories
        ],
        "tasks": {"queued": len(selection.tasks) - running, "running": running},
        "layers": dict(selection.layers),
        "archive": _archive(night),
        "stays": stays,
        "empty": selection.empty,
    }


def _archive(night: NightPart) -> str:
    if not night.archive_here:
        return "not on this host. If it is on another one, the next night there erases it."
    if night.later:
        return "on this host; its part is left to the next night."
    unpinned = " The pin is removed, because the pinned release contains the text." if night.pinned else ""
    mirror = f" The mirror {night.settings.archive_mirror} loses it, too." if night.settings.archive_mirror else ""
    return f"on this host; a night will run at once, builds a release without it and removes those with it.{mirror}{unpinned}"


def as_text(what: Literal["preview", "receipt"], record: dict[str, Any], zone: ZoneInfo) -> str:
    """For people."""
    times = {"time": partial(time_text, zone=zone), "zoned": partial(zoned_text, zone=zone)}
    return _TEMPLATES.get_template(f"{what}.txt.j2").render(record | times | {"counted": counted}).rstrip("\n")


def _short(text: str) -> str:
    return shorten(one_line(text), CHARACTERS)


#: Of HMEM_STATE_DIR.
RECEIPTS = "receipts"
#: The places of stays.toml in which every text may remain, the owner's copies first.
EVERYWHERE = ("copies", "memory", "telegram", "provider", "ids")


def receipt(
    journal: Journal, scan: dict[str, Any], stays: list[dict[str, str]], pending: list[str], *, accept: bool = False
) -> dict[str, Any]:
    """`accept`: the owner has checked the places that the scan named."""
    scope = journal.scope
    return {
        "id": journal.forget_id,
        "asked": scope.asked.without_words(),
        "chats": scope.chats,
        "stones": [tombstone.tombstone_id for tombstone in scope.tombstones],
        "started_at": journal.started_at,
        "finished_at": time.time(),
        "complete": not pending and (accept or not (scan["found"] or scan["unreadable"])),
        "accepted": accept,
        "layers": journal.layers,
        "scan": scan,
        "stays": stays,
        "pending": pending,
    }


def write_receipt(state_dir: Path, record: dict[str, Any]) -> None:
    path = make_dir(state_dir / RECEIPTS) / f"{record['id']}.json"
    write_atomic(path, orjson.dumps(record, option=orjson.OPT_INDENT_2) + b"\n")


def receipts(state_dir: Path) -> list[dict[str, Any]]:
    """All receipts, oldest first."""
    folder = state_dir / RECEIPTS
    return [orjson.loads(read_own(path)) for path in sorted(folder.glob("[!.]*.json"))] if folder.is_dir() else []


def what_stays(
    redis: list[dict[str, str]], store: StoreLayer | None, asked: ForgetRequest, settings: Settings
) -> list[dict[str, str]]:
    """Where the text may remain out of reach of our commands, and what the owner can do about it.

    `redis`: such places that redis_files.py names.
    """
    database = store.database if store else None
    places = [("vector_server", name) for name in servers(settings)]
    places += [("postgresql", database.place)] if database and not database.is_sqlite else []
    places += [("left_table", name) for name in (database.left_tables() if database else ())]
    # An import may come again: just the owner's copies are named.
    places += [(place, "") for place in (EVERYWHERE[:1] if asked.kind == "import" else EVERYWHERE)]
    places += [("shell", "")] if asked.typed else []
    return [*redis, *(_stays(place, name) for place, name in places)]


def _stays(place: str, name: str) -> dict[str, str]:
    """What, why and what to do of a place of stays.toml."""
    return {key: text.format(name=name) for key, text in _places()[place].items()}


@cache
def _places() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "stays.toml").read_text(encoding="utf-8"))
