"""A database for what one process must remember for a while and may be too much for memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def scratch_database(path: Path | None, schema: str, cache_kib: int = 8192) -> sqlite3.Connection:
    """A new one, in a transaction that nobody ends: of no use after a crash, and gone with its folder. None: SQLite gives it no name that stays."""
    connection = sqlite3.connect(path or "", isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{cache_kib}"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(schema)
    connection.execute("BEGIN")  # a statement each would be a write each
    return connection
