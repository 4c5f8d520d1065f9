"""The files of messages in `hmem export`: from the archive's export, and those that still wait in Redis for the night."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import orjson

from dispatcher.chat_data.export.sources import Gathered
from shared.system.export_folder import private_file
from shared.system.files import make_dir
from shared.text.format import counted
from shared.turns.conversation import FOLDER, INDEX, FileNamer, index_line
from shared.turns.media import Media
from shared.turns.records import Turn
from shared.wire import keys


def write_media(folder: Path, gathered: Gathered, client: Any, zone: ZoneInfo) -> dict[tuple[str, str], str]:
    """(task id, SHA-256) → name in `media/`. What is missing is a note."""
    names: dict[tuple[str, str], str] = {}
    lines, namer = list[dict[str, str | None]](), FileNamer(zone)
    for turn in (one.turn for one in gathered.in_order()):
        for one in {one.sha256: one for one in turn.media if one.kept}.values():
            name = namer.name(turn, one)
            if _write(folder / FOLDER / name, gathered, client, turn, one):
                names[turn.task_id, one.sha256] = name
            lines.append(index_line(turn, one, names.get((turn.task_id, one.sha256))))
    if lines:
        with private_file(folder / INDEX) as handle:
            handle.writelines(orjson.dumps(line) + b"\n" for line in lines)
    gathered.notes[:] = dict.fromkeys(gathered.notes)  # a Redis that is away is one note
    if missing := sum(line["file"] is None for line in lines):
        gathered.notes.append(
            f"{counted(missing, 'file of messages was', 'files of messages were')} left out: in an archive elsewhere, damaged, or lost."
        )
    return names


def _write(target: Path, gathered: Gathered, client: Any, turn: Turn, one: Media) -> bool:
    if source := gathered.files.get((turn.task_id, one.sha256)):  # a copy of ours, whose hash was checked
        make_dir(target.parent)
        source.rename(target)
        return True
    content = _waiting(gathered, client, turn, one)
    if hashlib.sha256(content).hexdigest() != one.sha256:
        return False
    with private_file(target) as handle:
        handle.write(content)
    return True


def _waiting(gathered: Gathered, client: Any, turn: Turn, one: Media) -> bytes:
    """From Redis; nothing if it is not there, or Redis is not reachable, which a note says."""
    found: list[bytes] = []

    def read() -> bool:
        found.append(client.get(keys.kept(turn.task_id, one.sha256)) or b"")
        return True

    gathered.asked("Files of messages since the last night were left out", read)
    return found[0] if found else b""
