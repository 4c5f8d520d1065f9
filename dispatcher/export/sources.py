"""Where one chat's turns are, for `hmem export`: in the archive if it is on this host, in Redis, in the store of the day, in the release.

Archive and Redis have what was said to the byte; the store has it but for characters that no engine takes; the release has cleaned text, a long
turn in passages. A source that cannot be read is named, and the others are asked.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson

from dispatcher.forget.layers.redis import RedisLayer
from dispatcher.releases.night_command import NightCommandFailed, read_json
from shared.config.settings import Settings
from shared.errors import InvalidInput, ReleaseRefused, StorageError
from shared.release.integrity import open_closed
from shared.release.manifest import LEXICAL, parts_of
from shared.release.parts import part_files
from shared.system.command import translate
from shared.system.export_folder import bare_line
from shared.system.files import safe_name
from shared.turns.chunk import COLUMNS, chunk_of
from shared.turns.records import RecordRefused, Tombstone, Turn, loads_object
from shared.wire import keys

if TYPE_CHECKING:
    from redis import Redis

    from dispatcher.memory.day.memory import DayMemory
    from shared.search.recall import OpenRelease

#: All the rows that there are.
EVERY = 1 << 62

ARCHIVE, REDIS, DAY, RELEASE = "archive", "redis", "day", "release"


@dataclass(frozen=True)
class ExportedTurn:
    """A turn, its line in turns.jsonl, and where it was found."""

    turn: Turn
    line: bytes
    source: str


@dataclass
class Gathered:
    """One chat's turns by id, what was asked to be forgotten, and what could not be asked."""

    chat_id: str
    stones: dict[str, Tombstone] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    turns: dict[str, ExportedTurn] = field(default_factory=dict)

    def forgets(self, turn: Turn) -> bool:
        return any(stone.covers(turn) for stone in self.stones.values())

    def add_stones(self, stones: list[Tombstone]) -> None:
        self.stones |= {stone.tombstone_id: stone for stone in stones if stone.chat_id == self.chat_id}

    def add(self, said: ExportedTurn) -> None:
        """Unless the turn is there already, or another chat's, or forgotten."""
        turn = said.turn
        if turn.chat_id == self.chat_id and turn.turn_id not in self.turns and not self.forgets(turn):
            self.turns[turn.turn_id] = said

    def asked(self, what: str, ask: Callable[[], bool]) -> bool:
        """Ask a source; whether it knows the chat. If it cannot be asked, a note says why."""
        try:
            return ask()
        except Exception as error:
            ours = translate(error)
            if ours is None:
                raise
            self.notes.append(f"{what}: {ours}")
            return False

    def in_order(self) -> list[ExportedTurn]:
        return sorted(
            self.turns.values(), key=lambda said: (said.turn.timestamp, said.turn.task_id, said.turn.role != "user")
        )


def gather(
    settings: Settings, client: Redis, day: DayMemory, release: OpenRelease | None, chat_id: str, work: Path
) -> Gathered:
    """Every turn of the chat, each once, in the words of the source that knows them best. `work` is an empty folder for the way."""
    found = Gathered(chat_id)
    found.add_stones(day.forgotten.of(chat_id))  # StorageError: rather no export than one of what is forgotten
    waiting: list[ExportedTurn] = []
    archived: dict[str, list[ExportedTurn]] = {}
    # Redis first: what a night takes out of it meanwhile is in the archive by then.
    found.asked("What was said since the last night may be missing", lambda: _from_redis(client, found, waiting))
    has_archive = _archive_is_here(settings, found) and found.asked(
        "The archive was left out", lambda: _from_archive(settings, found, work, archived)
    )
    for said in waiting:  # a value that the archive does not have comes after those that it has
        if all(said.line != one.line for one in archived.get(said.turn.turn_id, ())):
            archived.setdefault(said.turn.turn_id, []).append(said)
    for versions in archived.values():
        found.add(versions[-1])
    known = set(archived)
    if day.wanted:
        found.asked("The store of the day was left out", lambda: _from_store(day, found, known))
    if release is not None and not has_archive:
        found.asked("The release was left out", lambda: _from_release(release, found, known))
    return found


def _archive_is_here(settings: Settings, found: Gathered) -> bool:
    try:
        return (settings.hmem_night_dir / "archive").is_dir()
    except PermissionError:
        found.notes.append("The archive was left out: this user may not read it.")
        return False


def _from_archive(settings: Settings, found: Gathered, work: Path, archived: dict[str, list[ExportedTurn]]) -> bool:
    """Every version of every turn, by the night's own command: this side does not know the archive's format."""
    out = work / ARCHIVE
    command = ("export-archive", f"--chat={found.chat_id}", "--out", str(out), "--json")
    try:
        stones = read_json(settings, *command, as_ourselves=True)["tombstones"]
    except NightCommandFailed as failed:
        if failed.code == InvalidInput.exit_code:
            return False  # nothing of this chat is archived yet
        raise StorageError(str(failed)) from failed
    found.add_stones([Tombstone.parse(orjson.dumps(stone)) for stone in stones])
    with suppress(FileNotFoundError), (out / safe_name(found.chat_id) / "turns.jsonl").open("rb") as lines:
        for line in lines:
            version = _archived(line.rstrip(b"\n"))
            archived.setdefault(version.turn.turn_id, []).append(version)
    return True


def _archived(line: bytes) -> ExportedTurn:
    """A line of the archive's export: a bare value, or a record around one."""
    record = loads_object(line)
    if "kind" not in record:
        turn_key = keys.turn(record["task_id"], record["role"]).encode()
        return _said(turn_key, line, ARCHIVE)
    return _said(_bytes("key", record), _bytes("value", record), ARCHIVE)


def _bytes(name: str, record: dict[str, Any]) -> bytes:
    text = record.get(name)
    return base64.b64decode(record[f"{name}_base64"]) if text is None else cast(str, text).encode()


def _said(key: bytes, value: bytes, source: str) -> ExportedTurn:
    turn = Turn.parse(key, value)
    return ExportedTurn(turn, bare_line(key, value) or turn.to_json(), source)


def _from_redis(client: Redis, found: Gathered, waiting: list[ExportedTurn]) -> bool:
    """The chat's turns that no night has taken yet, and its tombstones; what is no turn is the night's to judge."""
    for raw in cast(list[bytes], client.lrange(keys.TOMBSTONES, 0, -1)):
        with suppress(RecordRefused):  # the night stops over it, and says so
            found.add_stones([Tombstone.parse(raw)])
    for name, value in RedisLayer(client).turns():
        with suppress(RecordRefused):
            if (said := _said(name, value, REDIS)).turn.chat_id == found.chat_id:
                waiting.append(said)
    return bool(waiting)


def _from_store(day: DayMemory, found: Gathered, known: set[str]) -> bool:
    for turn in day.turns.back(found.chat_id):
        if turn.turn_id not in known:
            found.add(ExportedTurn(turn, turn.to_json(), DAY))
    return any(said.source == DAY for said in found.turns.values())


def _from_release(release: OpenRelease, found: Gathered, known: set[str]) -> bool:
    """The turns of the release, put together from their passages. That its file is as it was built is known since it was opened."""
    release.open_texts()
    if release.text_missing:
        raise ReleaseRefused(release.text_missing)
    sql = f"SELECT {COLUMNS} FROM chunks WHERE chat_id = ? ORDER BY exchange, role, passage"  # noqa: S608 - constants
    for part in part_files(parts_of(release.path, LEXICAL)):  # all passages of a turn are in one
        with closing(open_closed(part)) as connection:
            chunks = [chunk_of(row) for row in connection.execute(sql, (found.chat_id,))]
        for _, group in groupby(chunks, key=lambda chunk: chunk.turn_ids):
            first, *more = group
            text = "\n".join(chunk.text for chunk in (first, *more))
            extra = first.origin.to_json()
            plain = Turn(
                first.exchange, first.role, first.chat_id, text, first.started_at, user_id=first.user_id, extra=extra
            )
            turn = plain if first.speaker == plain.speaker else replace(plain, name=first.speaker)
            if turn.turn_id not in known:
                found.add(ExportedTurn(turn, turn.to_json(), RELEASE))
    return any(said.source == RELEASE for said in found.turns.values())
