"""The table of all Redis keys, from which documents follow: type, content, expiry; and what a user of Redis may do with which, and what for.

The users themselves are in users.toml.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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


Access = Literal["R", "W", "RW"]


@dataclass(frozen=True)
class Right:
    """These commands on keys of these patterns, also several keys in one call; without patterns, commands that take no key.

    `access` is what Redis allows on the keys: R reads, W writes and deletes, RW both. `why`: what the program needs it for.
    """

    commands: str
    access: Access
    patterns: tuple[str, ...]
    why: str

    @property
    def names(self) -> list[str]:
        """The commands as an ACL writes them: `get`, `script|load`."""
        return self.commands.lower().split()


@dataclass(frozen=True)
class User:
    """`scripts`: runs Lua. Redis checks each command inside a script against the same rights, so a script's keys are all keys of the user.

    `vectors`: further rights where vectors are kept in the same Redis 8.
    """

    name: str
    what: str
    rights: tuple[Right, ...]
    scripts: bool = False
    password: bool = True
    vectors: tuple[Right, ...] = ()

    @property
    def keyless(self) -> list[str]:
        """Commands that take no key."""
        return [name for right in self.rights if not right.patterns for name in right.names]

    @property
    def selectors(self) -> tuple[Right, ...]:
        """The rights on keys, including the right to run scripts on them."""
        own = tuple(right for right in self.rights if right.patterns)
        patterns = tuple(dict.fromkeys(pattern for right in own for pattern in right.patterns))
        return (*own, Right("EVALSHA", "RW", patterns, "its scripts")) if self.scripts else own


def reads(commands: str, *patterns: str, why: str) -> Right:
    return Right(commands, "R", patterns, why)


def writes(commands: str, *patterns: str, why: str) -> Right:
    return Right(commands, "W", patterns, why)


def both(commands: str, *patterns: str, why: str) -> Right:
    return Right(commands, "RW", patterns, why)
