"""One chat as a vault for Obsidian: a note a day (shared/turns/obsidian.py), and one of the chat's facts, goals and preferences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from dispatcher.memory.store.whose import said_by
from shared.system.export_folder import private_file
from shared.text.format import date_text
from shared.turns.media_files import FileNames
from shared.turns.obsidian import INDEX, Vault, day_link, front_matter, inline
from shared.turns.speakers import namesakes

if TYPE_CHECKING:
    from dispatcher.chat_data.export.sources import Gathered
    from dispatcher.memory.store.memories import Memory

VAULT, MEMORIES = "obsidian", "Memories"
#: The kinds of memories, as a person reads them.
KINDS = (
    ("fact", "Facts"),
    ("goal", "Goals"),
    ("preference", "Preferences"),
    ("completed_goal", "Completed goals"),
)


def write_vault(
    folder: Path,
    gathered: Gathered,
    memories: list[Memory],
    newer: dict[int, int],
    zone: ZoneInfo,
    files: FileNames,
) -> None:
    """`newer`: id of a superseded memory → number of its successor; `files`: those of messages, which are in the vault already."""
    ordered = gathered.in_order()
    marks = namesakes({one.turn.person for one in ordered})
    with Vault(gathered.chat_id, zone, lambda name: private_file(folder / name), marks, [MEMORIES], files) as vault:
        for one in ordered:
            vault.add(one.turn)
    with private_file(folder / f"{MEMORIES}.md") as note:
        note.writelines(piece.encode() for piece in _memories(gathered.chat_id, memories, newer, zone, set(vault.days)))


def _memories(
    chat_id: str, memories: list[Memory], newer: dict[int, int], zone: ZoneInfo, days: set[str]
) -> Iterator[str]:
    yield front_matter({"title": MEMORIES, "chat": chat_id, "timezone": zone.key})
    yield f"\n# {MEMORIES}\n\nChat: [[{INDEX}]]\n"
    for kind, title in KINDS:
        yield f"\n## {title}\n\n"
        some = [memory for memory in memories if memory.type == kind]
        for memory in some:
            due = "until" if kind == "fact" else "due"
            times = (("noted", memory.created), (due, memory.deadline), ("done", memory.completed_at))
            details = [f"{word} {_day(at, zone, days)}" for word, at in times if at is not None]
            details += [f"replaced by {newer[memory.memory_id]}"] if memory.memory_id in newer else []
            who = f"{inline(speaker)}: " if (speaker := said_by(memory).get("speaker")) else ""
            yield f"- **{memory.number}** {who}{inline(memory.text)} ({', '.join(details)})\n"
        if not some:
            yield "(none)\n"


def _day(timestamp: float, zone: ZoneInfo, days: set[str]) -> str:
    """A link, if there is a note of that day."""
    day = date_text(timestamp, zone)
    return day_link(day) if day in days else day
