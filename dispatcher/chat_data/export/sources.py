"""Reads one chat's turns for `hmem export`: from the archive if it is on this host, from Redis, from the day store, and from the release.

Archive and Redis have the exact bytes; the day store lacks characters that no engine accepts; the release has cleaned text, and long turns in
passages. A source that cannot be read is named, and the others are used.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import orjson

from dispatcher.chat_data.forget.layers.redis import RedisLayer
from dispatcher.releases.night_command import NightCommandFailed, read_json
from shared.config.settings import Settings
from shared.errors import InvalidInput, StorageError
from shared.system.command import translate
from shared.system.export_folder import bare_line, private_file
from shared.system.files import make_dir, safe_name
from shared.text.format import counted
from shared.turns.conversation import FOLDER, INDEX, FileNamer, index_line
from shared.turns.media import Media
from shared.turns.records import RecordRefused, Tombstone, Turn, loads_object, time_order
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.day.memory import DayMemory
    from shared.search.recall import OpenRelease

ARCHIVE, REDIS, DAY, RELEASE = "archive", "redis", "day", "release"


@dataclass(frozen=True)
class ExportedTurn:
    """A turn, its line in turns.jsonl, and where it was found."""

    turn: Turn
    line: bytes
    source: str


@dataclass
class Gathered:
    """One chat's turns by id, its tombstones by id, notes about sources that could not be read, and where the files of messages are that the archive
    has: (task id, SHA-256) → path."""

    chat_id: str
    tombstones: dict[str, Tombstone] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    turns: dict[str, ExportedTurn] = field(default_factory=dict)
    files: dict[tuple[str, str], Path] = field(default_factory=dict)

    def add_tombstones(self, tombstones: list[Tombstone]) -> None:
        self.tombstones |= {one.tombstone_id: one for one in tombstones if one.chat_id == self.chat_id}

    def add(self, exported: ExportedTurn) -> None:
        """Add a turn, unless it is there already, belongs to another chat, or is forgotten."""
        turn, forgotten = exported.turn, any(one.covers(exported.turn) for one in self.tombstones.values())
        if turn.chat_id == self.chat_id and turn.turn_id not in self.turns and not forgotten:
            self.turns[turn.turn_id] = exported

    def asked(self, what: str, ask: Callable[[], object]) -> bool:
        """Read a source; whether that said yes. If it cannot be read, a note with the reason begins with `what`."""
        try:
            return ask() is True
        except Exception as error:
            ours = translate(error)
            if ours is None:
                raise
            self.notes.append(f"{what}: {ours}")
            return False

    def in_order(self) -> list[ExportedTurn]:
        return sorted(self.turns.values(), key=lambda one: time_order(one.turn))


def gather(
    settings: Settings, client: Redis, day: DayMemory, release: OpenRelease | None, chat_id: str, work: Path
) -> Gathered:
    """Every turn of the chat, each once, from the most exact source. `work` is an empty folder for temporary files."""
    found = Gathered(chat_id)
    found.add_tombstones(day.forgotten.of(chat_id))  # StorageError: no export is better than one of forgotten turns
    waiting: list[ExportedTurn] = []
    archived: dict[str, list[ExportedTurn]] = {}
    # Redis first: what a night removes from it meanwhile is in the archive by then.
    found.asked("Turns since the last night may be missing", lambda: _from_redis(client, found, waiting))
    has_archive = _archive_is_here(settings, found) and found.asked(
        "The archive was left out", lambda: _from_archive(settings, found, work, archived)
    )
    for newer in waiting:  # a value that the archive lacks comes after the ones it has
        if all(newer.line != one.line for one in archived.get(newer.turn.turn_id, ())):
            archived.setdefault(newer.turn.turn_id, []).append(newer)
    for versions in archived.values():
        found.add(versions[-1])
    known = set(archived)
    if day.wanted:
        found.asked("The day store was left out", lambda: _from_store(day, found, known))
    if release is not None and not has_archive:
        found.asked("The release was left out", lambda: _from_release(release, found, known))
    return found


def _archive_is_here(settings: Settings, found: Gathered) -> bool:
    """Whether the archive is here and *this user* may read it, because the command that copies it runs as this user; the forgetting's
    `archive_is_here` asks as the night's user instead."""
    try:
        return (settings.hmem_night_dir / "archive").is_dir()
    except PermissionError:
        found.notes.append("The archive was left out: this user may not read it.")
        return False


def _from_archive(settings: Settings, found: Gathered, work: Path, archived: dict[str, list[ExportedTurn]]) -> bool:
    """Every turn, read by the night's command, because the day host does not know the archive's format."""
    out = work / ARCHIVE
    command = ("export-archive", f"--chat={found.chat_id}", "--out", str(out), "--json")
    try:
        tombstones = read_json(settings, *command, ours=True)["tombstones"]
    except NightCommandFailed as failed:
        if failed.code == InvalidInput.exit_code:
            return False  # nothing of this chat is archived yet
        raise StorageError(str(failed)) from failed
    found.add_tombstones([Tombstone.parse(orjson.dumps(one)) for one in tombstones])
    folder = out / safe_name(found.chat_id)
    with suppress(FileNotFoundError), (folder / INDEX).open("rb") as lines:
        for about in map(orjson.loads, lines):
            if about["file"]:
                found.files[about["turn_id"].partition(":")[0], about["sha256"]] = folder / about["file"]
    with suppress(FileNotFoundError), (folder / "turns.jsonl").open("rb") as lines:
        for line in lines:
            version = _archived(line.rstrip(b"\n"))
            archived.setdefault(version.turn.turn_id, []).append(version)
    return True


def _archived(line: bytes) -> ExportedTurn:
    """A line of the archive's export: a bare value, or a record around one."""
    record = loads_object(line)
    if "kind" not in record:
        turn_key = keys.turn(record["task_id"], record["role"]).encode()
        return _exported(turn_key, line, ARCHIVE)
    return _exported(_bytes("key", record), _bytes("value", record), ARCHIVE)


def _bytes(name: str, record: dict[str, Any]) -> bytes:
    text = record.get(name)
    return base64.b64decode(record[f"{name}_base64"]) if text is None else cast(str, text).encode()


def _exported(key: bytes, value: bytes, source: str) -> ExportedTurn:
    turn = Turn.parse(key, value)
    return ExportedTurn(turn, bare_line(key, value) or turn.to_json(), source)


def _from_redis(client: Redis, found: Gathered, waiting: list[ExportedTurn]) -> None:
    """The chat's turns that no night has archived yet, and its tombstones. Invalid turns are left to the night."""
    for raw in cast(list[bytes], client.lrange(keys.TOMBSTONES, 0, -1)):
        with suppress(RecordRefused):  # the night reports it
            found.add_tombstones([Tombstone.parse(raw)])
    for name, value in RedisLayer(client).turns():
        with suppress(RecordRefused):
            if (exported := _exported(name, value, REDIS)).turn.chat_id == found.chat_id:
                waiting.append(exported)


def _from_store(day: DayMemory, found: Gathered, known: set[str]) -> None:
    for turn in day.turns.back(found.chat_id):
        if turn.turn_id not in known:
            found.add(ExportedTurn(turn, turn.to_json(), DAY))


def _from_release(release: OpenRelease, found: Gathered, known: set[str]) -> None:
    for turn in release.turns_back(found.chat_id, leave_out=known, with_files=True):
        found.add(ExportedTurn(turn, turn.to_json(), RELEASE))


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
    content = bytearray()
    gathered.asked(
        "Files of messages since the last night were left out",
        lambda: content.extend(client.get(keys.kept(turn.task_id, one.sha256)) or b""),
    )
    if hashlib.sha256(content).hexdigest() != one.sha256:  # nor is it in Redis
        return False
    with private_file(target) as handle:
        handle.write(content)
    return True
