"""What the last published night knew of each chat: the digest of what is recalled of it, and its counts. No words.

last/<run>/chats.sqlite    chat_id, digest ("": the next night does this chat again), account (JSON)
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from nightly.night.folder import Night
from nightly.night.ledger import ENDS
from shared.release.integrity import open_closed

CHATS = "chats.sqlite"
#: In the folder of the chunk step: a link to that file, if only chats with news are done.
CARRIED = "carried.sqlite"
#: What is summed over chats: their turns, what became of them (nightly/night/ledger.py), what the indexes have of them, whether there is a summary.
COUNTED = (
    "turns",
    "archived",
    *ENDS,
    "chunks",
    "keywords",
    "vectors",
    "repeated",
    "not_embedded",
    "notes",
    "summaries",
)
_SCHEMA = "CREATE TABLE chats (chat_id TEXT PRIMARY KEY, digest TEXT NOT NULL, account BLOB NOT NULL) WITHOUT ROWID"

Account = dict[str, Any]
Sums = dict[str, Any]


class ChatAccounts:
    """Reads such a file, whose hash was compared; without one there are no chats."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def digests(self) -> dict[str, str]:
        rows = self._rows("SELECT chat_id, digest FROM chats")
        return {str(chat_id): str(digest) for chat_id, digest in rows}

    def accounts(self, chats: Iterable[str]) -> Iterator[Account]:
        """Those of these chats."""
        if self._path is not None:
            with closing(open_closed(self._path)) as connection:
                for chat_id in chats:
                    if found := connection.execute(
                        "SELECT account FROM chats WHERE chat_id = ?", (chat_id,)
                    ).fetchone():
                        yield orjson.loads(found[0])

    def all(self) -> Iterator[tuple[str, str, Account]]:
        """(chat, digest, counts) of each chat."""
        for chat_id, digest, account in self._rows("SELECT chat_id, digest, account FROM chats"):
            yield chat_id, digest, orjson.loads(account)

    def link(self, path: Path) -> None:
        """Give the file a second name."""
        if self._path is not None:
            os.link(self._path, path)

    def _rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        if self._path is not None:
            with closing(open_closed(self._path)) as connection:
                yield from connection.execute(sql)


def sums_of(accounts: Iterable[Account]) -> Sums:
    """Over chats: how many have turns, each of COUNTED, and the rows in each place."""
    found: Sums = {"chats": 0, **dict.fromkeys(COUNTED, 0), "rows": Counter[str]()}
    for account in accounts:
        found["chats"] += bool(account.get("turns"))
        for name in COUNTED:
            found[name] += account.get(name) or 0
        found["rows"].update(account.get("rows", {}))
    return found


def combined(one: Sums, other: Sums, sign: int = 1) -> Sums:
    """Their sum, or what is left of the one without the other (`sign` -1)."""
    names = ("chats", *COUNTED)
    rows = {
        place: one["rows"].get(place, 0) + sign * other["rows"].get(place, 0)
        for place in {**one["rows"], **other["rows"]}
    }
    return {**{name: one[name] + sign * other[name] for name in names}, "rows": rows}


def carried_from(night: Night) -> Path | None:
    """The file that they are read from; None if all chats are done."""
    return None if night.result("chunk")["everything"] else night.output("chunk") / CARRIED


def write_chats(path: Path, earlier: Path | None, tonight: Mapping[str, tuple[str, Account] | None]) -> None:
    """Write the file: the chats of an earlier one, with tonight's in their places (digest and account; None: the chat is gone)."""
    if earlier is not None:
        shutil.copyfile(earlier, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = OFF")
        if earlier is None:
            connection.execute(_SCHEMA)
        for chat_id, record in tonight.items():
            if record is None:
                connection.execute("DELETE FROM chats WHERE chat_id = ?", (chat_id,))
            else:
                digest, account = record
                values = (chat_id, digest, orjson.dumps(account))
                connection.execute("INSERT OR REPLACE INTO chats VALUES (?,?,?)", values)
