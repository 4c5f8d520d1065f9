"""Everything that is stored of one chat, in a folder for its person: turns, memories and summaries.

    README.txt, conversation.md, turns.jsonl, memories.md, memories.jsonl, summaries.md, summaries.json;
    TABLE.json of each table of a feature, media/ and media.jsonl where files of messages are kept

It only reads, with or without a running dispatcher; README.txt names what could not be read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import orjson

from dispatcher.chat_data.export.sources import ARCHIVE, DAY, REDIS, RELEASE, Gathered, content_of, gather
from dispatcher.memory.store.whose import said_by
from dispatcher.memory.tombstones import hidden_by
from dispatcher.queue.chats import zone_named
from shared.config.settings import Settings
from shared.errors import InvalidInput
from shared.system.export_folder import README, MediaExport, export_folder, private_file
from shared.system.files import fresh_dir, remove_tree
from shared.text.format import counted, time_text
from shared.text.templates import templates
from shared.turns.conversation import conversation, inline, quoted
from shared.turns.records import dumps
from shared.turns.speakers import namesakes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis import Redis
    from sqlalchemy import Row

    from dispatcher.memory.day.open_memory import OpenedMemory
    from dispatcher.memory.hooks import FeatureTable
    from dispatcher.memory.store.memories import Memory
    from dispatcher.memory.store.summaries import SessionSummary
    from shared.search.recall import OpenRelease

_TEMPLATES = templates("dispatcher.chat_data.export", ".")
_TEMPLATES.filters |= {"inline": inline, "quoted": quoted}
#: The sources of turns, as README.txt describes them.
_ORIGINS = {
    ARCHIVE: "the archive: word for word",
    REDIS: "Redis, since the last night: word for word",
    DAY: "the day store: word for word, except characters that no database can store",
    RELEASE: "the release: cleaned text (no control characters, no long encoded data), long turns joined from passages",
}
_WORK = "_work"
#: Columns with a time, and columns that only the store uses.
_TIMES = frozenset(
    "created deadline completed_at reminded_at last_accessed superseded_at started_at ended_at created_at".split()
)
_OF_STORE = frozenset("chat_id memory_id summary_id uid embedding embedding_model".split())


#: The kinds of memories, as a person reads them.
KINDS = (("fact", "Facts"), ("goal", "Goals"), ("preference", "Preferences"), ("completed_goal", "Completed goals"))


@dataclass
class ExportedChat:
    """Everything that is stored of one chat."""

    gathered: Gathered
    memories: list[Memory] = field(default_factory=list)
    sessions: list[SessionSummary] = field(default_factory=list)
    release_run: int | None = None
    summary: str | None = None  # the release's
    of_features: list[tuple[FeatureTable, list[Row[Any]]]] = field(default_factory=list)
    newer: dict[int, int] = field(default_factory=dict)  # id of a superseded memory → number of its successor


def export_chat(settings: Settings, client: Redis, chat_id: str, out: Path) -> dict[str, Any]:
    """Write the folder; returns what is in it, and what could not be read. InvalidInput if nothing is stored of the chat."""
    from dispatcher.memory.day.open_memory import open_memory

    with export_folder(out) as folder, open_memory(settings) as memory:
        exported = _collect(settings, client, memory, chat_id, fresh_dir(folder / _WORK))
        notes = exported.gathered.notes
        stored = (exported.memories, exported.sessions, *(rows for _, rows in exported.of_features))
        if not any((exported.gathered.turns, exported.summary, *stored)):
            why = f" These sources could not be read: {' '.join(notes)}" if notes else ""
            raise InvalidInput(f"Nothing is stored of chat {chat_id}, so nothing was written. Check the id.{why}")
        sources = {source: sum(one.source == source for one in exported.gathered.turns.values()) for source in _ORIGINS}
        files = _write_turns(folder, exported.gathered, client, settings.timezone)
        remove_tree(folder / _WORK)
        _write_memories(folder, exported, settings.timezone)
        _write_summaries(folder, exported, settings.timezone)
        for of, rows in exported.of_features:
            _write_json(folder / f"{of.table.name}.json", [_json_of_row(of, one, settings.timezone) for one in rows])
        contents = {
            "chat_id": chat_id,
            "turns": len(exported.gathered.turns),
            "sources": sources,
            "files": files,
            "memories": len(exported.memories),
            **{str(of.table.name): len(rows) for of, rows in exported.of_features},
            "session_summaries": len(exported.sessions),
            "release": exported.release_run,
            "notes": notes,
        }
        more = {"zone": settings.chat_timezone, "origins": _ORIGINS, "tables": exported.of_features}
        _write_text(folder / README, contents | more, settings.timezone)
        return contents


def _collect(settings: Settings, client: Redis, memory: OpenedMemory, chat_id: str, work: Path) -> ExportedChat:
    day = memory.day
    release, reason = memory.release_or_reason("The release was left out")
    gathered = gather(settings, client, day, release, chat_id, work)
    gathered.notes += [reason] if reason else []
    if not day.wanted:
        gathered.notes.append("DAY_STORE_URL=none: there is no day store, so the export has no memories.")
    made = ExportedChat(gathered)

    def read_store() -> None:
        known = day.remembering.of_chat(chat_id)
        made.newer, made.memories = known.superseded_numbers, [*known.shown]
        made.of_features = [(rows.of, rows.rows(chat_id)) for rows in day.of_features]
        made.sessions = _remaining_sessions(day.summaries.list(chat_id), gathered)

    if day.wanted:
        gathered.asked("Memories and summaries of sessions were left out", read_store)
    if release:
        made.release_run, made.summary = release.run, _summary(release, gathered)
    return made


def _remaining_sessions(summaries: Iterable[SessionSummary], gathered: Gathered) -> list[SessionSummary]:
    """The summaries that contain no forgotten turns."""
    hidden, before = hidden_by(list(gathered.tombstones.values()))
    late = (one for one in summaries if before is None or one.started_at >= before)
    return [one for one in late if not hidden.intersection(one.turn_ids)]


def _summary(release: OpenRelease, gathered: Gathered) -> str | None:
    """The release's summary, unless the release was built before something in this chat was forgotten."""
    if set(gathered.tombstones) - set(release.manifest.tombstones):
        gathered.notes.append("The release's summary was left out: it was built before something was forgotten.")
        return None
    return gathered.asked("The release's summary was left out", lambda: release.summary(gathered.chat_id))


def _write_turns(folder: Path, gathered: Gathered, client: Redis, zone: ZoneInfo) -> int:
    """With the files that came with them; returns how many. What is missing of those is a note."""
    ordered = gathered.in_order()
    _write(folder / "turns.jsonl", (one.line + b"\n" for one in ordered))
    media = MediaExport(folder, zone, partial(content_of, gathered, client))
    turns, marks = media.passing(one.turn for one in ordered), namesakes({one.turn.person for one in ordered})
    document = conversation(gathered.chat_id, turns, zone, marks, media.names)
    _write(folder / "conversation.md", (piece.encode() for piece in document))
    if missing := media.missing:
        gathered.notes.append(
            f"{counted(missing, 'file of messages was', 'files of messages were')} left out: in an archive elsewhere, damaged, or lost."
        )
    return len(media.names)


def _write_memories(folder: Path, exported: ExportedChat, zone: ZoneInfo) -> None:
    lines = []
    for memory in exported.memories:
        by = exported.newer.get(memory.memory_id)
        replaced = {"superseded_by": by, "superseded_at": memory.superseded_at if by else None}
        lines.append(dumps(_json(memory, zone, **replaced)) + b"\n")
    _write(folder / "memories.jsonl", lines)
    _write_text(folder / "memories.md", vars(exported) | {"kinds": KINDS, "said_by": said_by}, zone)


def _json(row: Memory | SessionSummary, zone: ZoneInfo, **changed: object) -> dict[str, Any]:
    """All of a row that means something outside of the store, with its times in ISO 8601."""
    fields = vars(row) | changed
    return {
        name: _iso(value, zone) if name in _TIMES else value for name, value in fields.items() if name not in _OF_STORE
    }


def _json_of_row(of: FeatureTable, row: Row[Any], zone: ZoneInfo) -> dict[str, Any]:
    """The columns that are exported, of which those with numbers with a fraction are times."""
    zone = zone_named(getattr(row, "zone", "")) or zone
    values = {name: getattr(row, name) for name in of.exported}
    return {name: _iso(value, zone) if isinstance(value, float) else value for name, value in values.items()}


def _write_summaries(folder: Path, exported: ExportedChat, zone: ZoneInfo) -> None:
    release = None if exported.summary is None else {"run": exported.release_run, "text": exported.summary}
    sessions = [_json(one, zone) for one in exported.sessions]
    _write_json(folder / "summaries.json", {"release": release, "sessions": sessions})
    _write_text(folder / "summaries.md", vars(exported), zone)


def _iso(timestamp: float | None, zone: ZoneInfo) -> str | None:
    return None if timestamp is None else datetime.fromtimestamp(timestamp, zone).isoformat()


def _write_json(path: Path, value: Any) -> None:
    _write(path, [orjson.dumps(value, option=orjson.OPT_INDENT_2) + b"\n"])


def _write_text(path: Path, values: dict[str, Any], zone: ZoneInfo) -> None:
    """From the template of its name."""
    template = _TEMPLATES.get_template(f"{path.name}.j2")
    _write(path, [template.render(values, now=time.time(), time=partial(time_text, zone=zone)).encode()])


def _write(path: Path, pieces: Iterable[bytes]) -> None:
    with private_file(path) as handle:
        handle.writelines(pieces)
