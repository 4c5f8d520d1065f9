"""Export of the whole archive, per chat: as JSONL that can be imported again (`hmem-night backfill jsonl`), and as Markdown to read.

    <folder>/README.txt, index.json
    <folder>/<name of the chat>/turns.jsonl         the last version of each turn, in order of time, byte for byte
    <folder>/<name of the chat>/conversation.md     the same to read
    <folder>/<name of the chat>/media/, media.jsonl files that are kept, and whose they are, {"turn_id", "sha256", "kind", "mime", "file"}, one
                                                    line each ("file" is null for one that is not in the archive): only where there are any

Turns that a tombstone covers are left out. What is no turn, and earlier versions, are in a copy of the archive alone.

A catalog of the archive in a temporary folder says where the turns are; memory holds the positions of one chat's. No lock is taken: a night replaces
whole files; that is detected, and the export restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import orjson

from nightly.archive.catalog import Catalog, recomputed, stat_of
from nightly.archive.chat_chunks import ChatReader
from nightly.archive.media.places import path_of
from nightly.archive.segments import turn_of
from nightly.archive.tables import Place
from nightly.night.progress import Reporter
from shared.config.settings import Settings
from shared.errors import ArchiveDamaged, InvalidInput, NightRunning, StorageError
from shared.system.archive_folder import archive_files
from shared.system.export_folder import README, MediaExport, bare_line, export_folder, private_file
from shared.system.files import read_own, safe_name
from shared.text.format import counted, time_text
from shared.text.templates import templates
from shared.turns.conversation import conversation
from shared.turns.media import Media
from shared.turns.records import Turn
from shared.turns.speakers import Speaker, namesakes

FORMAT = 2

_TEMPLATES = templates("nightly.archive", ".")


@dataclass(frozen=True)
class ExportScope:
    """Which chats (none named: all), from when to when (POSIX seconds; `until` is exclusive), and what else is written of them."""

    chats: frozenset[str] = frozenset()
    since: float | None = None
    until: float | None = None

    def has(self, chat_id: str) -> bool:
        return not self.chats or chat_id in self.chats

    def in_time(self, timestamp: float) -> bool:
        return (self.since is None or timestamp >= self.since) and (self.until is None or timestamp < self.until)


@dataclass
class Chat:
    """What was exported of one chat; the times are its first and its last turn's."""

    folder: str
    turns: int = 0
    files: int = 0
    forgotten: int = 0
    first: float | None = None
    last: float | None = None


def export_archive(settings: Settings, out: Path, wanted: ExportScope, report: Reporter) -> dict[str, Any]:
    """Write the export; returns the contents of index.json. If the archive changes meanwhile, it is read once more."""
    try:
        return _export(settings, out, wanted, report)
    except (ArchiveDamaged, NightRunning):  # a segment that a night has just replaced is missing or different
        return _export(settings, out, wanted, report)


def _export(settings: Settings, out: Path, wanted: ExportScope, report: Reporter) -> dict[str, Any]:
    directory = settings.hmem_night_dir / "archive"
    if not archive_files(directory):
        raise InvalidInput(
            f"There is no archive in {directory} yet, so there is nothing to export. Run hmem-night run once, or set HMEM_NIGHT_DIR."
        )
    with recomputed(settings, report) as catalog:
        return _Export(settings, wanted, report, catalog).write(out)


class _Export:
    """One attempt."""

    def __init__(self, settings: Settings, wanted: ExportScope, report: Reporter, catalog: Catalog) -> None:
        self._directory, self._zone = settings.hmem_night_dir / "archive", settings.timezone
        self._wanted, self._report, self._catalog = wanted, report, catalog

    def write(self, out: Path) -> dict[str, Any]:
        with export_folder(out) as folder, ChatReader(self._catalog, self._directory) as reader:
            wanted = list(filter(self._wanted.has, self._catalog.digests()))
            tracked = self._report.track(wanted, len(wanted), "writing chats")
            chats = {chat_id: self._write_chat(chat_id, reader, folder) for chat_id in tracked}
            if not self._is_as_it_was():
                raise NightRunning(
                    "A night rewrote the archive during the export. Nothing was written; try again when the night has ended."
                )
            self._refuse_unknown(chats)
            index = self._index(chats, self._catalog.segments)
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

    def _write_chat(self, chat_id: str, reader: ChatReader, folder: Path) -> Chat:
        chat = Chat(safe_name(chat_id))
        places, speakers = self._places(chat_id, reader, chat)
        if not places:
            return chat
        with ExitStack() as stack:
            written = stack.enter_context(private_file(folder / chat.folder / "turns.jsonl"))
            document = stack.enter_context(private_file(folder / chat.folder / "conversation.md"))
            media = MediaExport(folder / chat.folder, self._zone, self._content_of)
            turns, marks = media.passing(_write_turns(places, reader, written)), namesakes(speakers)
            for piece in conversation(chat_id, turns, self._zone, marks, media.names):
                document.write(piece.encode())
        chat.files = len(media.names)
        if media.missing:
            self._report.say(
                f"  {media.missing} files of messages in {chat.folder} are not in the archive, or damaged there (hmem-night verify)."
            )
        return chat

    def _content_of(self, turn: Turn, one: Media) -> bytes | None:
        """None for a file that was forgotten meanwhile, or is no plain one."""
        with suppress(OSError, StorageError):
            return read_own(self._directory / path_of(turn.chat_id, turn.task_id, one.sha256))
        return None

    def _places(self, chat_id: str, reader: ChatReader, chat: Chat) -> tuple[list[Place], set[Speaker]]:
        """Where the wanted turns are, in order of time, and who speaks."""
        tombstones, speakers, places = self._catalog.tombstones_of(chat_id), set[Speaker](), list[Place]()
        for place in self._catalog.places_of(chat_id, by_time=True):
            turn = reader.read(place, chat_id)
            if any(one.covers(turn) for one in tombstones):
                chat.forgotten += 1
            elif self._wanted.in_time(turn.timestamp):
                places.append(place)
                speakers.add(turn.person)
                chat.first, chat.last = turn.timestamp if chat.first is None else chat.first, turn.timestamp
        chat.turns = len(places)
        return places, speakers

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
        totals = {name: sum(getattr(chat, name) for chat in chats.values()) for name in ("turns", "files", "forgotten")}
        asked = {"chats": sorted(self._wanted.chats), "since": self._wanted.since, "until": self._wanted.until}
        return {
            "format": FORMAT,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "part": self._wanted != ExportScope(),
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
            index=index,
            counted=counted,
            asked=", ".join(parts),
            made=made,
            archive=self._directory,
            zone=self._zone.key,
        )


def _write_turns(places: Iterable[Place], reader: ChatReader, written: IO[bytes]) -> Iterator[Turn]:
    """Write each to turns.jsonl as it passes."""
    for place in places:
        raw = reader.raw(place)
        written.write((bare_line(raw.key, raw.value) or orjson.dumps({"kind": "turn", **raw.to_json()})) + b"\n")
        yield turn_of(raw)
