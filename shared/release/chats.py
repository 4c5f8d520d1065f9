"""`chats.sqlite`: what a release has of each chat (counts, its summary, the centre of its vectors). Each night writes the whole file, some 3 KB
a chat: the rows of the chats with news, and those of all others as they were. So a manifest has sums over the chats and none of them by name.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.embedding import centring
from shared.release.integrity import check_database, damage_named, open_closed
from shared.release.manifest import CHATS

#: Raise it when the file is laid out in another way: then no row is taken over.
LAYOUT = 4
#: What is counted of a chat: turns to recall, their chunks, turns that a tombstone covers; then the account of the night that did it last
#: (nightly/night/ledger.py), and what its notes are. `vectors`, of which some repeat another, is None where the release has no vector index.
COUNTED = tuple(
    "turns chunks forgotten archived with_chunks without_text keywords vectors not_embedded repeated notes note_vectors".split()
)
_SCHEMA = f"""
CREATE TABLE chats (
  chat_id TEXT PRIMARY KEY, made_from TEXT NOT NULL, {", ".join(f"{name} INTEGER" for name in COUNTED)}, summary TEXT, centre BLOB
) WITHOUT ROWID
"""

_SHORT = ", ".join(("chat_id", "made_from", *COUNTED))
_WHOLE = f"{_SHORT}, summary, centre"

Counts = Mapping[str, int | None]


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
    """What a row follows from beside its chat: only rows of the same are taken over."""
    return f"chats layout {LAYOUT}, centring {centring.VERSION}"


def write_chats(path: Path, rows: Iterable[ChatRow]) -> None:
    """Write the new file, one row a chat, close it and check it. StorageError if that fails."""
    sql = f"INSERT INTO chats ({_WHOLE}) VALUES (?,?{',?' * len(COUNTED)},?,?)"  # noqa: S608 - constants
    with damage_named(path), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        connection.execute(_SCHEMA)
        for row in rows:
            values = (row.chat_id, row.made_from, *(row.counts.get(name) for name in COUNTED), row.summary, row.centre)
            connection.execute(sql, values)
        connection.execute("COMMIT")
    check_database(path)


class ChatTable:
    """Reads `chats.sqlite`. Thread-safe; sqlite3.Error if it is damaged in a way that its hash was not compared for."""

    def __init__(self, path: Path | None) -> None:
        """Without a file there is no chat."""
        self._lock = threading.Lock()
        self._connection = open_closed(path) if path and path.is_file() else None

    @classmethod
    def of(cls, release: Path) -> ChatTable:
        """That of a release, or of a directory that is laid out like one."""
        return cls(release / CHATS)

    def __enter__(self) -> ChatTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            if self._connection:
                self._connection.close()

    def row(self, chat_id: str) -> ChatRow | None:
        """All of one chat; None for one that is not here."""
        found = self._read(f"SELECT {_WHOLE} FROM chats WHERE chat_id = ?", chat_id)  # noqa: S608 - constants
        return _row(found[0]) if found else None

    def __iter__(self) -> Iterator[ChatRow]:
        """Each chat that is not gone, in order of the ids, without summary and centre."""
        return (row for row in self.rows() if not row.is_gone)

    def rows(self) -> Iterator[ChatRow]:
        """The same, including chats that are gone."""
        return map(_row, self._read(f"SELECT {_SHORT} FROM chats ORDER BY chat_id"))  # noqa: S608 - constants

    def ids(self) -> list[str]:
        """The chats that have chunks, in order."""
        return [row.chat_id for row in self.rows() if row.counts["chunks"]]

    def largest(self) -> str | None:
        """A chat with the most chunks; None if there is none."""
        found = self._read("SELECT chat_id FROM chats WHERE chunks > 0 ORDER BY chunks DESC, chat_id DESC LIMIT 1")
        return found[0][0] if found else None

    def summaries(self) -> Iterator[tuple[str, str]]:
        """(chat, text) of each summary."""
        yield from self._read("SELECT chat_id, summary FROM chats WHERE summary IS NOT NULL ORDER BY chat_id")

    def _read(self, sql: str, *values: object) -> list[Any]:
        with self._lock:
            return self._connection.execute(sql, values).fetchall() if self._connection else []


def changed_chats(new: Path, old: Path) -> list[tuple[str, Counts, Counts]]:
    """(chat, its counts in the one, in the other) of the chats that are not the same in two releases, in order; zeros where one is not."""
    with ChatTable.of(new) as now, ChatTable.of(old) as before:
        rows, others = ({row.chat_id: row for row in one.rows()} for one in (now, before))
    nothing = ChatRow("", "", dict.fromkeys(COUNTED, 0))
    differing = sorted(chat for chat in rows.keys() | others.keys() if rows.get(chat) != others.get(chat))
    return [(chat, rows.get(chat, nothing).counts, others.get(chat, nothing).counts) for chat in differing]


def _row(found: tuple[Any, ...]) -> ChatRow:
    chat_id, made_from, *values = found
    return ChatRow(chat_id, made_from, dict(zip(COUNTED, values, strict=False)), *values[len(COUNTED) :])
