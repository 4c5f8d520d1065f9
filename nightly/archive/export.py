"""Export of the whole archive, per chat: as JSONL that can be imported again (`hmem-night backfill jsonl`), and as Markdown to read.

    <folder>/README.txt, index.json
    <folder>/<name of the chat>/turns.jsonl         every version of every turn: in order of time, versions in order of the runs
    <folder>/<name of the chat>/conversation.md     the last version of each
    <folder>/<name of the chat>/media/, media.jsonl files that are kept, and whose they are: only where there are any

No chat's folder begins with `_` (shared.system.files.safe_name). Turns that a tombstone covers are left out. What is no turn is in a copy
of the archive alone.

The archive is read line by line, twice: for a catalog of it in a temporary folder, and to write each record to a work file; then each chat is
sorted. Memory holds the positions of one chat's turns. No lock is taken: a night replaces whole files; that is detected, and the export
restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Connection
from typing import IO, Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from nightly.archive.catalog import Catalog, recomputed, stat_of
from nightly.archive.media.export import MediaExport
from nightly.archive.segments import RawRecord, Segment, parse_turn, turn_of
from nightly.night.progress import Reporter
from nightly.night.scratch import scratch_database
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged, InvalidInput, NightRunning
from shared.system.archive_folder import archive_files
from shared.system.export_folder import README, bare_line, export_folder, private_file
from shared.system.files import make_dir, remove_tree, safe_name
from shared.text.format import time_text
from shared.turns.conversation import conversation
from shared.turns.records import RecordRefused, Turn, time_order
from shared.turns.speakers import Speaker, namesakes

FORMAT = 1
#: Folder of the work file.
WORK = "_work"
_SCHEMA = "CREATE TABLE lines (chat_id TEXT, line BLOB); CREATE INDEX lines_by_chat ON lines (chat_id)"
REWRITTEN = "A night rewrote the archive during the export. Nothing was written; try again when the night has ended."

_TEMPLATES = Environment(
    loader=PackageLoader("nightly.archive", "."),
    undefined=StrictUndefined,
    autoescape=False,
    keep_trailing_newline=True,
)


@dataclass(frozen=True)
class ExportScope:
    """Which chats (none named: all), from when to when (POSIX seconds; `until` is exclusive), and what else is written of them."""

    chats: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None

    @property
    def part(self) -> bool:
        return bool(self.chats) or self.since is not None or self.until is not None

    def has(self, chat_id: str) -> bool:
        return not self.chats or chat_id in self.chats

    def in_time(self, timestamp: float) -> bool:
        return (self.since is None or timestamp >= self.since) and (self.until is None or timestamp < self.until)


@dataclass
class Chat:
    """What was exported of one chat; the times are its first and its last turn's."""

    folder: str
    turns: int = 0
    versions: int = 0
    files: int = 0
    forgotten: int = 0
    first: float | None = None
    last: float | None = None

    def took(self, turn: Turn, versions: int) -> None:
        self.turns, self.versions = self.turns + 1, self.versions + versions
        self.first = turn.timestamp if self.first is None else self.first
        self.last = turn.timestamp


def export_archive(
    settings: Settings, out: Path, wanted: ExportScope, report: Reporter, *, force: bool = False
) -> dict[str, Any]:
    """Write the export; returns the contents of index.json. If the archive changes meanwhile, it is read once more."""
    try:
        return _export(settings, out, wanted, report, force=force)
    except (ArchiveDamaged, NightRunning):  # a segment that a night has just replaced is missing or different
        return _export(settings, out, wanted, report, force=force)


def _export(settings: Settings, out: Path, wanted: ExportScope, report: Reporter, *, force: bool) -> dict[str, Any]:
    directory = settings.hmem_night_dir / "archive"
    if not archive_files(directory):
        raise InvalidInput(
            f"There is no archive in {directory} yet, so there is nothing to export. Run hmem-night run once, or set HMEM_NIGHT_DIR."
        )
    with recomputed(settings, report) as catalog:
        return _Export(settings, wanted, report, catalog).write(out, force=force)


class _Export:
    """One attempt."""

    def __init__(self, settings: Settings, wanted: ExportScope, report: Reporter, catalog: Catalog) -> None:
        self._directory, self._zone = settings.hmem_night_dir / "archive", settings.timezone
        self._wanted, self._report = wanted, report
        self._files = list(catalog.segments)
        #: Made from the same segments.
        self._catalog = catalog

    def write(self, out: Path, *, force: bool) -> dict[str, Any]:
        with export_folder(out, force=force) as folder:
            segments = self._catalog.segments
            with closing(scratch_database(make_dir(folder / WORK) / "lines.sqlite", _SCHEMA)) as lines:
                self._put_down(lines)
                if not self._is_as_it_was():
                    raise NightRunning(REWRITTEN)
                chats = self._write_chats(folder, lines)
            self._refuse_unknown(chats)
            remove_tree(folder / WORK)
            index = self._index(chats, segments)
            with private_file(folder / "index.json") as handle:
                handle.write(orjson.dumps(index, option=orjson.OPT_INDENT_2) + b"\n")
            with private_file(folder / README) as handle:
                handle.write(self._readme(index).encode())
        tombstones = [
            tombstone for chat_id in sorted(self._wanted.chats) for tombstone in self._catalog.tombstones_of(chat_id)
        ]
        return index | {"tombstones": [orjson.loads(tombstone.to_json()) for tombstone in tombstones]}

    def _is_as_it_was(self) -> bool:
        """Whether no segment was replaced since the catalog read it. Newer ones are not read: the export shows the archive at its start."""
        try:
            return all(stat_of(self._directory / name) == stat for name, stat in self._catalog.stats().items())
        except FileNotFoundError:
            return False

    # Reading: records go to a work file, in the order of the runs.

    def _put_down(self, lines: Connection) -> None:
        for name in self._report.track(self._files, len(self._files), "reading the archive"):
            segment = Segment(self._directory / name)
            if segment.sha256 != self._catalog.segments[name]:
                raise NightRunning(REWRITTEN)
            for line in segment:
                if line["kind"] in ("turn", "quarantine"):
                    self._take(RawRecord.from_json(line), lines)

    def _take(self, raw: RawRecord, lines: Connection) -> None:
        try:  # whatever kind the line claims to be: a build reads it the same way
            turn = parse_turn(raw, self._catalog)
        except RecordRefused:
            return
        if self._wanted.has(turn.chat_id):
            line = orjson.dumps({"kind": "turn", **raw.to_json()})
            lines.execute("INSERT INTO lines VALUES (?,?)", (turn.chat_id, line))

    # Writing: each chat in order of time.

    def _write_chats(self, folder: Path, lines: Connection) -> dict[str, Chat]:
        chats = [chat_id for (chat_id,) in lines.execute("SELECT DISTINCT chat_id FROM lines ORDER BY chat_id")]
        tracked = self._report.track(chats, len(chats), "writing chats")
        return {chat_id: self._write_chat(chat_id, lines, folder) for chat_id in tracked}

    def _write_chat(self, chat_id: str, lines: Connection, folder: Path) -> Chat:
        chat = Chat(safe_name(chat_id))
        places, speakers = self._places(lines, chat_id, chat)
        if not places:
            return chat
        with ExitStack() as stack:
            written = stack.enter_context(private_file(folder / chat.folder / "turns.jsonl"))
            document = stack.enter_context(private_file(folder / chat.folder / "conversation.md"))
            media = MediaExport(self._directory, folder / chat.folder, self._zone)
            turns, marks = media.passing(_write_turns(places, lines, written, chat)), namesakes(speakers)
            for piece in conversation(chat_id, turns, self._zone, marks, media.names):
                document.write(piece.encode())
            chat.files = media.finish(self._report)
        return chat

    def _places(self, lines: Connection, chat_id: str, chat: Chat) -> tuple[list[list[int]], set[Speaker]]:
        """The lines with the wanted versions of each turn, in order of time, and the speakers.

        A turn whose last version is forgotten is forgotten.
        """
        found: dict[str, tuple[Turn, bool, list[int]]] = {}
        tombstones = self._catalog.tombstones_of(chat_id)
        for at, line in lines.execute("SELECT rowid, line FROM lines WHERE chat_id = ? ORDER BY rowid", (chat_id,)):
            turn = turn_of(_raw(line))
            covered = any(tombstone.covers(turn) for tombstone in tombstones)
            earlier = found[turn.turn_id][2] if turn.turn_id in found else []
            found[turn.turn_id] = (replace(turn, content="", extra={}), covered, earlier + ([] if covered else [at]))
        chat.forgotten = sum(covered for _, covered, _ in found.values())
        has_version = self._catalog.has_version  # not a turn whose last version was erased
        wanted = [
            one
            for one in found.values()
            if not one[1] and has_version(one[0].turn_id) and self._wanted.in_time(one[0].timestamp)
        ]
        wanted.sort(key=lambda one: time_order(one[0]))
        return [places for _, _, places in wanted], {turn.person for turn, _, _ in wanted}

    def _refuse_unknown(self, chats: dict[str, Chat]) -> None:
        """InvalidInput if the archive knows none of the named chats; a chat with only tombstones is known."""
        unknown = sorted(
            chat_id for chat_id in self._wanted.chats - set(chats) if not self._catalog.tombstones_of(chat_id)
        )
        if unknown and len(unknown) == len(self._wanted.chats):
            raise InvalidInput(
                f"The archive has no turns of chat {', '.join(unknown)}, so nothing was written. hmem-night status --chats shows the chats."
            )
        for chat_id in unknown:
            self._report.say(f"  The archive has no turns of chat {chat_id}.")

    def _index(self, chats: dict[str, Chat], segments: dict[str, str]) -> dict[str, Any]:
        with_turns = [chat for chat in chats.values() if chat.turns]
        totals = {
            name: sum(getattr(chat, name) for chat in chats.values())
            for name in ("turns", "versions", "files", "forgotten")
        }
        asked = {"chats": sorted(self._wanted.chats), "since": self._wanted.since, "until": self._wanted.until}
        return {
            "format": FORMAT,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "part": self._wanted.part,
            "asked": asked,
            "chats": {chat_id: vars(chat) for chat_id, chat in chats.items() if chat.turns},
            "counts": {"chats": len(with_turns), **totals},
            "segments": segments,
        }

    def _readme(self, index: dict[str, Any]) -> str:
        parts = [f"chat {chat_id}" for chat_id in sorted(self._wanted.chats)]
        for word, at in (("since", self._wanted.since), ("until", self._wanted.until)):
            if at is not None:
                parts.append(f"{word} {time_text(at, self._zone)}")
        made = time_text(datetime.fromisoformat(index["made"]).timestamp(), self._zone)
        return _TEMPLATES.get_template("export_readme.txt.j2").render(
            index=index, asked=", ".join(parts), made=made, archive=self._directory, zone=self._zone.key
        )


def _write_turns(places: list[list[int]], lines: Connection, written: IO[bytes], chat: Chat) -> Iterator[Turn]:
    """Write every version to turns.jsonl; yields the last version of each turn."""
    for versions in places:
        for at in versions:
            (line,) = lines.execute("SELECT line FROM lines WHERE rowid = ?", (at,)).fetchone()
            raw = _raw(line)
            written.write((bare_line(raw.key, raw.value) or line) + b"\n")
        turn = turn_of(raw)
        chat.took(turn, len(versions))
        yield turn


def _raw(line: bytes) -> RawRecord:
    return RawRecord.from_json(orjson.loads(line))
