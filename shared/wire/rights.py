"""A user of Redis and its rights: which commands on which keys, and what for. The users themselves are in users.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
