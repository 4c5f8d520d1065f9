"""The table of all Redis keys, from which rights, and documents follow: type, content, expiry. Who writes and reads them are rights (users.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.hooks import feature_modules
from shared.wire.json import dumps, loads_object
from shared.wire.keys import MOVED


@dataclass(frozen=True)
class Key:
    pattern: str
    type: str
    content: str
    expiry: str


@dataclass(frozen=True)
class TableOfChats:
    """A hash with a field for each chat, of what belongs to the chat's settings: it is archived, put back, and forgotten with them
    (but for MOVED).

    `archived`: what the archive has of a value (RecordRefused: nothing); `restored`: the value that is put back where there is none.
    """

    key: str
    archived: Callable[[bytes], Any]
    restored: Callable[[Any], bytes]


#: Those of the core.
KEYS = tuple(
    Key(*row) for row in tomllib.loads((Path(__file__).parent / "keys.toml").read_text(encoding="utf-8"))["keys"]
)


def all_keys() -> tuple[Key, ...]:
    """The keys of the core and of the features."""
    return (*KEYS, *(key for module in feature_modules("keys") for key in module.KEYS))


def chat_tables() -> dict[str, TableOfChats]:
    """What it is called in the archive → the table."""
    found = [{"moved": TableOfChats(MOVED, loads_object, dumps)}]
    found += [getattr(module, "CHAT_TABLES", {}) for module in feature_modules("keys")]
    return {name: table for tables in found for name, table in tables.items()}
