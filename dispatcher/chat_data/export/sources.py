"""Reads one chat's turns for `hmem export`: from the archive if it is on this host, from Redis, from the day store, and from the release.

Archive and Redis have the exact bytes; the day store lacks characters that no engine accepts; the release has cleaned text, and long turns in
passages. A source that cannot be read is named, and the others are used.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson

from dispatcher.chat_data.forget.layers.redis import RedisLayer
from dispatcher.releases.night_command import NightCommandFailed, read_json
from shared.config.settings import Settings
from shared.errors import InvalidInput, StorageError
from shared.system.command import translate
from shared.system.export_folder import bare_line
from shared.system.files import safe_name
from shared.turns.conversation import INDEX
from shared.turns.media import Media
from shared.turns.records import RecordRefused, Tombstone, Turn, loads_object, time_order
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.day.memory import DayMemory
    from shared.search.recall import OpenRelease

T = TypeVar("T")

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

    def add_copies(self, source: str, turns: Iterable[Turn], known: Collection[str]) -> None:
        """Add the turns of a source that does not have their exact bytes, except `known` ones (turn ids)."""
        for turn in turns:
            if turn.turn_id not in known:
                self.add(ExportedTurn(turn, turn.to_json(), source))

    def asked(self, what: str, ask: Callable[[], T]) -> T | None:
        """What reading a source gave. If it cannot be read, a note with the reason begins with `what`."""
        try:
            return ask()
        except Exception as error:
            ours = translate(error)
            if ours is None:
                raise
            note = f"{what}: {ours}"
            self.notes += [note] if note not in self.notes else []
            return None

    def in_order(self) -> list[ExportedTurn]:
        return sorted(self.turns.values(), key=lambda one: time_order(one.turn))


def gather(
    settings: Settings, client: Redis, day: DayMemory, release: OpenRelease | None, chat_id: str, work: Path
) -> Gathered:
    """Every turn of the chat, each once, from the most exact source. `work` is an empty folder for temporary files."""
    found = Gathered(chat_id)
    found.add_tombstones(day.forgotten.of(chat_id))  # StorageError: no export is better than one of forgotten turns
    waiting, archived = dict[str, ExportedTurn](), dict[str, ExportedTurn]()
    # Redis first: what a night removes from it meanwhile is in the archive by then.
    found.asked("Turns since the last night may be missing", lambda: _from_redis(client, found, waiting))
    has_archive = _archive_is_here(settings, found) and found.asked(
        "The archive was left out", lambda: _from_archive(settings, found, work, archived)
    )
    for turn_id, one in waiting.items():  # a value that the archive lacks comes after the one that it has
        if turn_id not in archived or archived[turn_id].line != one.line:
            archived[turn_id] = one
    for one in archived.values():
        found.add(one)
    if day.wanted:
        found.asked("The day store was left out", lambda: found.add_copies(DAY, day.turns.back(chat_id), archived))
    if release is not None and not has_archive:
        turns = release.turns_back(chat_id, leave_out=archived, with_files=True)
        found.asked("The release was left out", lambda: found.add_copies(RELEASE, turns, archived))
    return found


def _archive_is_here(settings: Settings, found: Gathered) -> bool:
    """Whether the archive is here and *this user* may read it, because the command that copies it runs as this user; the forgetting's
    `archive_is_here` asks as the night's user instead."""
    try:
        return (settings.hmem_night_dir / "archive").is_dir()
    except PermissionError:
        found.notes.append("The archive was left out: this user may not read it.")
        return False


def _from_archive(settings: Settings, found: Gathered, work: Path, archived: dict[str, ExportedTurn]) -> bool:
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
            exported = _archived(line.rstrip(b"\n"))
            archived[exported.turn.turn_id] = exported
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


def _from_redis(client: Redis, found: Gathered, waiting: dict[str, ExportedTurn]) -> None:
    """The chat's turns that no night has archived yet, and its tombstones. Invalid turns are left to the night."""
    for raw in cast(list[bytes], client.lrange(keys.TOMBSTONES, 0, -1)):
        with suppress(RecordRefused):  # the night reports it
            found.add_tombstones([Tombstone.parse(raw)])
    for name, value in RedisLayer(client).turns():
        with suppress(RecordRefused):
            if (exported := _exported(name, value, REDIS)).turn.chat_id == found.chat_id:
                waiting[exported.turn.turn_id] = exported


def content_of(gathered: Gathered, client: Any, turn: Turn, one: Media) -> bytes | None:
    """A file of a message, from the archive, or from Redis where it waits for the night."""
    if copy := gathered.files.pop((turn.task_id, one.sha256), None):
        content = copy.read_bytes()
        copy.unlink()  # so that the disk holds each only once
        return content
    key = keys.kept(turn.task_id, one.sha256)
    return gathered.asked("Files of messages since the last night were left out", lambda: client.get(key))
