"""Everything that is kept of one chat, in a folder for the person it belongs to: what was said, what was remembered, what was summed up.

    README.txt, conversation.md, turns.jsonl, memories.md, memories.jsonl, summaries.md, summaries.json

It reads and changes nothing, beside a running dispatcher and without one; what cannot be read is named in README.txt.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from dispatcher.export.sources import ARCHIVE, DAY, EVERY, REDIS, RELEASE, Gathered, gather
from dispatcher.memory.tombstones import hidden_by
from shared.config.settings import Settings
from shared.errors import InvalidInput, ReleaseRefused
from shared.system.export_folder import README, export_folder, private_file
from shared.system.files import fresh_dir, remove_tree
from shared.text.format import time_text
from shared.turns.conversation import conversation, inline, quoted
from shared.turns.records import dumps
from shared.turns.speakers import namesakes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis import Redis

    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.summaries import SessionSummary
    from shared.search.recall import OpenRelease

_TEMPLATES = Environment(
    loader=PackageLoader("dispatcher.export", "."),
    undefined=StrictUndefined,
    autoescape=False,
    keep_trailing_newline=True,
)
#: Each source of turns as README.txt tells it.
_TOLD = {
    ARCHIVE: "the archive: word for word",
    REDIS: "since the last night: word for word",
    DAY: "the store of the day: word for word, but for characters that no database keeps",
    RELEASE: "the release: cleaned text (no control characters, no long encoded data), long turns joined of passages",
}
_WORK = "_work"


@dataclass(frozen=True)
class ExportedChat:
    """All that is kept of one chat."""

    said: Gathered
    memories: list[Memory]
    sessions: list[SessionSummary]
    release_run: int | None
    summary: str | None  # the release's
    newer: dict[int, int] = field(
        default_factory=dict
    )  # id of a superseded memory → number of the one that took its place

    @property
    def empty(self) -> bool:
        return not (self.said.turns or self.memories or self.sessions or self.summary)


def export_chat(settings: Settings, client: Redis, chat_id: str, out: Path) -> dict[str, Any]:
    """Write the folder; what is in it, and what could not be asked. InvalidInput if nothing is kept of the chat."""
    with export_folder(out) as folder, ExitStack() as held:
        kept = _collect(settings, client, chat_id, fresh_dir(folder / _WORK), held)
        remove_tree(folder / _WORK)
        notes = kept.said.notes
        if kept.empty:
            why = f" What could not be asked: {' '.join(notes)}" if notes else ""
            raise InvalidInput(f"Nothing is kept of chat {chat_id}, so nothing was written. Is the id right?{why}")
        sources = {source: sum(said.source == source for said in kept.said.turns.values()) for source in _TOLD}
        _write_turns(folder, kept.said, settings.timezone)
        _write_memories(folder, kept.memories, kept.newer, settings.timezone)
        _write_summaries(folder, kept, settings.timezone)
        told = {
            "chat_id": chat_id,
            "turns": len(kept.said.turns),
            "sources": sources,
            "memories": len(kept.memories),
            "session_summaries": len(kept.sessions),
            "release": kept.release_run,
            "notes": notes,
        }
        made = time_text(time.time(), settings.timezone)
        readme = _TEMPLATES.get_template("readme.txt.j2")
        text = readme.render(told | {"made": made, "zone": settings.chat_timezone, "told": _TOLD})
        _write(folder / README, [text])
        return told


def _collect(settings: Settings, client: Redis, chat_id: str, work: Path, held: ExitStack) -> ExportedChat:
    from dispatcher.memory.day.opened import open_memory

    memory = held.enter_context(open_memory(settings))
    day = memory.day
    release, reason = memory.release_or_reason("The release was left out")
    said = gather(settings, client, day, release, chat_id, work)
    said.notes += [reason] if reason else []
    if not day.wanted:
        said.notes.append("MEDIUM_URL=none: there is no store of the day, so there are no memories in here.")
    memories: list[Memory] = []
    newer: dict[int, int] = {}
    sessions: list[SessionSummary] = []

    def read_store() -> bool:
        held = day.remembering.of_chat(chat_id)
        newer.update(held.superseded_numbers)
        memories.extend(held.shown)
        sessions.extend(_told_sessions(day.summaries.list(chat_id, EVERY), said))
        return True

    if day.wanted:
        said.asked("Memories and summaries of sessions were left out", read_store)
    summary = _summary(release, said) if release else None
    return ExportedChat(said, memories, sessions, release.run if release else None, summary, newer)


def _told_sessions(summaries: Iterable[SessionSummary], said: Gathered) -> list[SessionSummary]:
    """Without those that hold anything that is forgotten."""
    hidden, before = hidden_by(list(said.stones.values()))
    return [
        one
        for one in summaries
        if not hidden.intersection(one.turn_ids) and (before is None or one.started_at >= before)
    ]


def _summary(release: OpenRelease, said: Gathered) -> str | None:
    """Of the release, unless it was built before something in this chat was forgotten."""
    if set(said.stones) - set(release.manifest.tombstones):
        said.notes.append("The release's summary was left out: it is from before something was forgotten.")
        return None
    try:
        return release.summary(said.chat_id)
    except ReleaseRefused as error:
        said.notes.append(f"The release's summary was left out: {error}")
        return None


def _write_turns(folder: Path, said: Gathered, zone: ZoneInfo) -> None:
    ordered = said.in_order()
    with private_file(folder / "turns.jsonl") as handle:
        handle.writelines(one.line + b"\n" for one in ordered)
    marks = namesakes({one.turn.person for one in ordered})
    _write(folder / "conversation.md", conversation(said.chat_id, (one.turn for one in ordered), zone, marks))


def _write_memories(folder: Path, memories: list[Memory], newer: dict[int, int], zone: ZoneInfo) -> None:
    with private_file(folder / "memories.jsonl") as handle:
        handle.writelines(dumps(_memory_json(memory, newer.get(memory.memory_id), zone)) + b"\n" for memory in memories)
    lines = ["# What is remembered\n"]
    for kind, title in (
        ("fact", "Facts"),
        ("goal", "Goals"),
        ("preference", "Preferences"),
        ("completed_goal", "Completed goals"),
    ):
        some = [_memory_line(memory, newer.get(memory.memory_id), zone) for memory in memories if memory.type == kind]
        lines += [f"\n## {title}\n\n", *(some or ["(none)\n"])]
    _write(folder / "memories.md", lines)


def _memory_line(memory: Memory, newer: int | None, zone: ZoneInfo) -> str:
    due = "until" if memory.type == "fact" else "due"
    times = [("noted", memory.created), (due, memory.deadline), ("done", memory.completed_at)]
    times += [(f"replaced by {newer}", memory.superseded_at)] if newer else []
    told = ", ".join(f"{word} {time_text(at, zone)}" for word, at in times if at is not None)
    told += f", priority {memory.priority}" if memory.priority else ""
    told += f", also phrased as: {'; '.join(map(inline, memory.wordings))}" if memory.wordings else ""
    return f"- {memory.number}: {inline(memory.text)} ({told})\n"


def _memory_json(memory: Memory, newer: int | None, zone: ZoneInfo) -> dict[str, Any]:
    return {
        "number": memory.number,
        "type": str(memory.type),
        "text": memory.text,
        "created": _iso(memory.created, zone),
        "deadline": _iso(memory.deadline, zone),
        "done": _iso(memory.completed_at, zone),
        "reminded": _iso(memory.reminded_at, zone),
        "importance": memory.importance,
        "priority": memory.priority,
        "superseded_by": newer,
        "superseded": _iso(memory.superseded_at, zone) if newer else None,
        "wordings": list(memory.wordings),
        "category": memory.category,
        "source_turns": (memory.source_turn or "").split(),
    }


def _write_summaries(folder: Path, kept: ExportedChat, zone: ZoneInfo) -> None:
    release = None if kept.summary is None else {"run": kept.release_run, "text": kept.summary}
    sessions = [
        {
            "session": one.session,
            "started": _iso(one.started_at, zone),
            "ended": _iso(one.ended_at, zone),
            "made": _iso(one.created_at, zone),
            "text": one.text,
            "turns": list(one.turn_ids),
        }
        for one in kept.sessions
    ]
    _write_json(folder / "summaries.json", {"release": release, "sessions": sessions})
    lines = ["# Summaries\n"]
    if kept.summary is not None:
        lines.append(f"\n## The whole chat, by night {kept.release_run}\n\n{quoted(kept.summary)}\n")
    for one in kept.sessions:
        times = f"{time_text(one.started_at, zone)} to {time_text(one.ended_at, zone)}"
        lines.append(f"\n## A conversation, {times}\n\n{quoted(one.text)}\n")
    _write(folder / "summaries.md", lines)


def _iso(timestamp: float | None, zone: ZoneInfo) -> str | None:
    return None if timestamp is None else datetime.fromtimestamp(timestamp, zone).isoformat()


def _write_json(path: Path, value: Any) -> None:
    with private_file(path) as handle:
        handle.write(orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n")


def _write(path: Path, pieces: Iterable[str]) -> None:
    with private_file(path) as handle:
        for piece in pieces:
            handle.write(piece.encode())
