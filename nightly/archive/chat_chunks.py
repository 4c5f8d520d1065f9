"""The chunks of single chats, cut from the archive: the catalog says where the turns of a chat are, and only these lines are read.

Each line is proven by the hash that the catalog has of its record. A turn that cannot be cut counts as one without text, and is reported: no
single message may stop the night of all chats. It is archived, and each build tries it again. Lines are read here; they are parsed and cut by
pure functions, which a worker may do (nightly/night/workers.py): a task is some chats, whose number and sizes follow from the archive, never from
who does it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson

from nightly.archive.catalog import Catalog
from nightly.archive.segments import RESTORE, RawRecord
from nightly.archive.tables import Place
from nightly.index.chunk_file import line_of
from nightly.night.failure import reason_of
from nightly.night.workers import tasks_of
from shared.errors import ArchiveDamaged
from shared.turns.chunking import chunks_of, indexed_text
from shared.turns.records import RecordRefused, Tombstone, Turn, time_order

#: Segments that are open at the same time.
OPEN_FILES = 200


@dataclass(frozen=True)
class StoredLine:
    """A line of the archive, where it was read, and the hash that the catalog has of its record."""

    segment: str
    start: int
    sha256: str
    content: bytes


@dataclass(frozen=True)
class StoredChat:
    """What the archive has of a chat: the last version of each of its turns. `archived`, `forgotten`: as the catalog counts them."""

    chat_id: str
    archived: int
    forgotten: int
    tombstones: Sequence[Tombstone]
    lines: Sequence[StoredLine]


@dataclass(frozen=True)
class CutChat:
    """What became of one chat (nightly/night/ledger.py), its chunks as lines of `chunks.jsonl`, and why turns could not be cut: turn id → name of an
    error."""

    account: dict[str, int]
    set_aside: dict[str, str]
    lines: bytes


class ChatReader:
    """Reads chats; a context manager, which closes the segments."""

    def __init__(self, catalog: Catalog, directory: Path) -> None:
        self._catalog, self._directory = catalog, directory
        self._files: dict[str, int] = {}
        self._opened = ExitStack()

    def __enter__(self) -> ChatReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def stored(self, chat_id: str) -> StoredChat:
        """What the archive has of a chat, unparsed; ArchiveDamaged if it cannot be read."""
        catalog = self._catalog
        return StoredChat(
            chat_id,
            archived=catalog.turns_of(chat_id),
            forgotten=catalog.forgotten_of(chat_id),
            tombstones=catalog.tombstones_of(chat_id),
            lines=list(self._lines(chat_id)),
        )

    def archived(self, chat_id: str) -> Iterator[Turn]:
        """The last version of each turn, including turns that a tombstone hides, as they lie in the segments."""
        return (self._trusted(line, chat_id) for line in self._lines(chat_id))

    def read(self, place: Place, chat_id: str) -> Turn:
        """The turn of this chat that is there; ArchiveDamaged if none is."""
        with self.proving():
            line = self.line(place)
        return self._trusted(line, chat_id)

    def _trusted(self, line: StoredLine, chat_id: str) -> Turn:
        with self.proving():
            return parsed(line, chat_id, self._directory)

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Where a line is not what the catalog says (ArchiveDamaged), the next night makes the catalog anew."""
        try:
            yield
        except ArchiveDamaged:
            self._catalog.distrust()
            raise

    def _lines(self, chat_id: str) -> Iterator[StoredLine]:
        return map(self.line, self._catalog.places_of(chat_id))

    def line(self, place: Place) -> StoredLine:
        """Unparsed; ArchiveDamaged if it cannot be read."""
        name, start, length, sha256 = place
        try:
            return StoredLine(name, start, sha256, os.pread(self._file(name), length, start))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(self._directory / name, start, error) from error

    def _file(self, name: str) -> int:
        if name not in self._files:
            if len(self._files) >= OPEN_FILES:
                self._opened.close()
                self._files.clear()
            self._files[name] = os.open(self._directory / name, os.O_RDONLY | os.O_CLOEXEC)
            self._opened.callback(os.close, self._files[name])
        return self._files[name]


def parsed(line: StoredLine, chat_id: str, directory: Path) -> Turn:
    """The turn in a line of the archive; ArchiveDamaged if it is not the one that the catalog has there."""
    try:
        raw = RawRecord.from_json(orjson.loads(line.content))
        turn = Turn.parse(raw.key, raw.value)
        if raw.sha256 != line.sha256 or turn.chat_id != chat_id:
            raise ValueError("it has another record there")
    except (ValueError, KeyError, TypeError, AttributeError, RecordRefused) as error:
        raise _damaged(directory / line.segment, line.start, error) from error
    return turn


def recalled(stored: StoredChat, directory: Path) -> list[Turn]:
    """The turns that no tombstone covers, in order of time; ArchiveDamaged."""
    turns = (parsed(line, stored.chat_id, directory) for line in stored.lines)
    return sorted((turn for turn in turns if not any(one.covers(turn) for one in stored.tombstones)), key=time_order)


def cut(stored: StoredChat, directory: Path, zone: ZoneInfo) -> CutChat:
    """The chunks of a chat; ArchiveDamaged. `archived` and `forgotten` are counted by the catalog, the rest is from what was read."""
    turns, lines, set_aside, with_chunks = recalled(stored, directory), list[bytes](), dict[str, str](), 0
    for turn in turns:
        try:
            made = lines_of(turn, zone)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with this turn, the others are processed
            set_aside[turn.turn_id] = reason_of(error)
            continue
        with_chunks += bool(made)
        lines += made
    account = {
        "archived": stored.archived,
        "turns": len(turns),
        "with_chunks": with_chunks,
        "forgotten": stored.forgotten,
        "without_text": len(turns) - with_chunks,
        "chunks": len(lines),
    }
    return CutChat(account, set_aside, b"".join(lines))


def lines_of(turn: Turn, zone: ZoneInfo) -> list[bytes]:
    """The chunks of a turn."""
    return [line_of(chunk, indexed_text(chunk, zone)) for chunk in chunks_of(turn)]


def _damaged(path: Path, start: int, error: Exception) -> ArchiveDamaged:
    return ArchiveDamaged(
        f"Archive segment {path} does not have the turn that it had at byte {start}: {error}. "
        f"Nothing was built from it. {RESTORE}"
    )


def cut_tasks(reader: ChatReader, chats: Iterable[str], zone: ZoneInfo) -> Iterator[tuple[ZoneInfo, list[StoredChat]]]:
    """The chats, read from the archive; ArchiveDamaged."""
    stored = map(reader.stored, chats)
    return ((zone, some) for some in tasks_of(stored, lambda one: sum(len(line.content) for line in one.lines)))


def cut_chats(task: tuple[ZoneInfo, list[StoredChat]], directory: Path = Path()) -> list[CutChat]:
    """The task itself: ArchiveDamaged if a record is not the one that the catalog knows."""
    zone, chats = task
    return [cut(stored, directory, zone) for stored in chats]
