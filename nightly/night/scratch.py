"""A database, or a file, for what one process must remember for a while and may be too much for memory. With encryption it is in memory even so."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

from nightly.night.sealed import scratch_name
from shared.system.keys import sealing


def scratch_file() -> BinaryIO:
    """A new one without a name, so that a killed process leaves none."""
    if sealing.is_on():
        return os.fdopen(os.memfd_create("hmem-scratch"), "w+b")
    return cast(BinaryIO, tempfile.TemporaryFile())


def scratch_database(path: Path | None, schema: str, cache_kib: int = 8192) -> sqlite3.Connection:
    """A new one, in a transaction that nobody ends: of no use after a crash, and gone with its folder. None: SQLite gives it no name that stays."""
    connection = sqlite3.connect(scratch_name(str(path) if path else ""), isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{cache_kib}"):
        connection.execute(f"PRAGMA {pragma}")
    connection.executescript(schema)
    connection.execute("BEGIN")  # a statement each would be a write each
    return connection
