"""`cache.sqlite`: what a model wrote tonight, until it is archived. A night that is killed does not ask for it again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import orjson

from nightly.archive.segments import WrittenText

_SCHEMA = "CREATE TABLE IF NOT EXISTS texts (key TEXT PRIMARY KEY, record BLOB) WITHOUT ROWID"


class TextCache:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute(_SCHEMA)

    def get(self, key: str) -> WrittenText | None:
        row = self._connection.execute("SELECT record FROM texts WHERE key = ?", (key,)).fetchone()
        return WrittenText.from_json(orjson.loads(row[0])) if row else None

    def put(self, text: WrittenText) -> None:
        with self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO texts VALUES (?,?)", (text.key, orjson.dumps(text.to_json()))
            )

    def clear(self) -> None:
        """They are archived: no second place may keep what a chat said."""
        with self._connection:
            self._connection.execute("DELETE FROM texts")

    def close(self) -> None:
        self._connection.close()
