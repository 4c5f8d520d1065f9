"""`chats/`: what a release has of each chat (counts, its summary, the centre of its vectors), in parts (shared/release/parts.py).

A part has the chats that had news in one night; of the rows that a chat has in several parts, that of the newest part counts. A chat that is gone
has a row of zeros. So a night writes, and sends, the rows of the chats with news, and a manifest has sums over the chats and none of them by name.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any

from shared.embedding import centring
from shared.release.integrity import damage_named, open_closed
from shared.release.manifest import CHATS
from shared.release.parts import part_files

#: Raise it when a part is laid out in another way: then none is taken over.
LAYOUT = 3
#: What is counted of a chat: turns to recall, their chunks, turns that a tombstone covers; then the account of the night that did it last
#: (nightly/night/ledger.py), and what its notes are. `vectors`, of which some repeat another, is None where the release has no vector index.
COUNTED = (
    "turns",
    "chunks",
    "forgotten",
    "archived",
    "with_chunks",
    "without_text",
    "keywords",
    "vectors",
    "not_embedded",
    "repeated",
    "notes",
    "note_vectors",
)
_SCHEMA = f"""
CREATE TABLE chats (chat_id TEXT PRIMARY KEY, made_from TEXT NOT NULL, {", ".join(f"{name} INTEGER" for name in COUNTED)}) WITHOUT ROWID;
CREATE TABLE summaries (chat_id TEXT PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE centres (chat_id TEXT PRIMARY KEY, vector BLOB NOT NULL);
"""

_COLUMNS = ", ".join(("chat_id", "made_from", *COUNTED))
_ALL = f"SELECT {_COLUMNS} FROM chats ORDER BY chat_id"  # noqa: S608 - constants
_ONE = f"SELECT {_COLUMNS} FROM chats WHERE chat_id = ?"  # noqa: S608 - constants
_INSERT = f"INSERT INTO chats ({_COLUMNS}) VALUES (?,?{',?' * len(COUNTED)})"  # noqa: S608 - constants
_LARGEST = "SELECT chunks, chat_id FROM chats WHERE chunks > 0 ORDER BY chunks DESC LIMIT 1"

Counts = Mapping[str, int | None]
Files = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ChatRow:
    """One chat. `made_from`: the digest of what the archive had of it (nightly/archive/catalog.py), "" if something of it waits for a better answer
    of the next night. `centre`: float32, little endian (shared/embedding/centring.py)."""

    chat_id: str
    made_from: str
    counts: Counts
    summary: str | None = None
    centre: bytes | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the chat is left, not even turns that are forgotten."""
        return not any(self.counts.get(name) for name in COUNTED)


def version() -> str:
    """What a part follows from beside its chats: only parts of the same are taken over."""
    return f"chats layout {LAYOUT}, centring {centring.VERSION}"


class PartWriter:
    """Writes one part; a context manager, at whose end the file is closed. StorageError if that fails."""

    def __init__(self, path: Path) -> None:
        self._path, self._stack = path, ExitStack()
        self.chats = set[str]()

    def __enter__(self) -> PartWriter:
        self._stack.enter_context(damage_named(self._path))
        self._connection = self._stack.enter_context(closing(sqlite3.connect(self._path, isolation_level=None)))
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.executescript(f"BEGIN;{_SCHEMA}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        self._stack.__exit__(kind, error, trace)

    def add(self, row: ChatRow) -> None:
        """The one row of a chat."""
        values = (row.chat_id, row.made_from, *(row.counts.get(name) for name in COUNTED))
        self._connection.execute(_INSERT, values)
        if row.summary is not None:
            self._connection.execute("INSERT INTO summaries VALUES (?,?)", (row.chat_id, row.summary))
        if row.centre is not None:
            self._connection.execute("INSERT INTO centres VALUES (?,?)", (row.chat_id, row.centre))
        self.chats.add(row.chat_id)


class ChatTable:
    """Reads the parts of `chats/`. Thread-safe; sqlite3.Error if a file is damaged in a way that its hash was not compared for."""

    def __init__(self, parts: Iterable[Path]) -> None:
        """`parts`: from the oldest to the newest."""
        self._lock = threading.Lock()
        with ExitStack() as stack:
            opened = [stack.enter_context(closing(open_closed(path))) for path in parts]
            self._stack = stack.pop_all()
        self._newest_first = opened[::-1]

    @classmethod
    def of(cls, release: Path) -> ChatTable:
        """That of a release, or of a directory that is laid out like one."""
        return cls(part_files(release / CHATS))

    def __enter__(self) -> ChatTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._stack.close()

    def row(self, chat_id: str, *, whole: bool = True) -> ChatRow | None:
        """The newest row of a chat, which may say that it is gone; None if it has none. `whole`: with its summary and centre."""
        with self._lock:
            for part in self._newest_first:
                if found := part.execute(_ONE, (chat_id,)).fetchone():
                    return _row(found, *(_details(part, chat_id) if whole else ()))
        return None

    def counts(self, chat_id: str) -> dict[str, int]:
        """Of one chat; zeros for one that is not here."""
        row = self.row(chat_id, whole=False)
        return {name: (row and row.counts.get(name)) or 0 for name in COUNTED}

    def summary(self, chat_id: str) -> str | None:
        """None if the chat has none."""
        row = self.row(chat_id)
        return row.summary if row else None

    def centre(self, chat_id: str) -> bytes | None:
        """None if the chat has no vectors here."""
        row = self.row(chat_id)
        return row.centre if row else None

    def __iter__(self) -> Iterator[ChatRow]:
        """Each chat that is not gone, in order of the ids, without summary and centre."""
        return (row for row in self.rows() if not row.is_gone)

    def rows(self) -> Iterator[ChatRow]:
        """The newest row of each chat, in order of the ids, without summary and centre; including chats that are gone."""
        parts = [_aged(part.execute(_ALL), age) for age, part in enumerate(self._newest_first)]
        for _, same in groupby(merge(*parts), key=itemgetter(0)):
            yield _row(next(same)[2])

    def ids(self) -> list[str]:
        """The chats that have chunks, in order."""
        return [row.chat_id for row in self.rows() if row.counts["chunks"]]

    def largest(self) -> str | None:
        """A chat with the most chunks, as one of the parts has it; None if there is none."""
        with self._lock:
            found = [row for part in self._newest_first if (row := part.execute(_LARGEST).fetchone())]
        return max(found)[1] if found else None

    def summaries(self) -> Iterator[tuple[str, str]]:
        """(chat, text) of each summary that counts."""
        for row in self:
            if (text := self.summary(row.chat_id)) is not None:
                yield row.chat_id, text


def chats_in(part: Path) -> list[str]:
    """Every chat that a part has a row of, in order."""
    with damage_named(part), closing(open_closed(part)) as connection:
        return [chat_id for (chat_id,) in connection.execute("SELECT chat_id FROM chats ORDER BY chat_id")]


def rows_in(part: Path, chat_ids: Collection[str]) -> Iterator[ChatRow]:
    """The rows that a part has of these chats, with all that belongs to them."""
    with damage_named(part), closing(open_closed(part)) as connection:
        for chat_id in sorted(chat_ids):
            if found := connection.execute(_ONE, (chat_id,)).fetchone():
                yield _row(found, *_details(connection, chat_id))


def in_both(
    chats: Iterable[str], new: ChatTable, old: ChatTable
) -> Iterator[tuple[str, dict[str, int], dict[str, int]]]:
    """(chat, its counts in the one, in the other) of these chats; zeros where it is not."""
    return ((chat, new.counts(chat), old.counts(chat)) for chat in chats)


def changed_chats(new: Path, old: Path, new_files: Files, old_files: Files) -> list[str]:
    """The chats, in order, that may not be the same in two releases: those of the parts that only one of them has."""
    differing = set[str]()
    for release, files, others in ((new, new_files, old_files), (old, old_files, new_files)):
        known = {file["sha256"] for file in others.values()}
        names = [name for name, file in files.items() if name.startswith(f"{CHATS}/") and file["sha256"] not in known]
        for name in names:
            differing.update(chats_in(release / name))
    return sorted(differing)


def _aged(rows: Iterable[tuple[Any, ...]], age: int) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    """Rows that sort by chat, and for one chat the newest part's first."""
    return ((row[0], age, row) for row in rows)


def _row(found: tuple[Any, ...], summary: str | None = None, centre: bytes | None = None) -> ChatRow:
    chat_id, made_from, *counts = found
    return ChatRow(chat_id, made_from, dict(zip(COUNTED, counts, strict=True)), summary, centre)


def _details(part: sqlite3.Connection, chat_id: str) -> tuple[str | None, bytes | None]:
    """A chat's summary, and its centre."""
    text = part.execute("SELECT text FROM summaries WHERE chat_id = ?", (chat_id,)).fetchone()
    centre = part.execute("SELECT vector FROM centres WHERE chat_id = ?", (chat_id,)).fetchone()
    return (text[0] if text else None), (centre[0] if centre else None)
