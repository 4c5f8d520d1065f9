"""Generate deploy/redis-users.acl, and the tables of docs/redis-keys.md (scripts/docs), from shared/wire/users.toml.

.venv/bin/python scripts/redis_users.py            writes the file
.venv/bin/python scripts/redis_users.py --vectors  prints what to add for vectors in the same Redis
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from shared.wire.acl import acl, selector
from shared.wire.key_table import Key, all_keys
from shared.wire.rights import Right, User
from shared.wire.users import reach, users

ACL = Path(__file__).parent.parent / "deploy" / "redis-users.acl"
ACCESS = {"R": "reads", "W": "writes", "RW": "reads and writes"}


def tables() -> str:
    """What each user may do, why, and what it may not do, in Markdown."""
    parts = []
    for user in users():
        lines = [f"### {user.name}", "", user.what, "", "| commands | keys | why |", "|---|---|---|"]
        lines += [_row(right) for right in user.rights]
        parts.append("\n".join([*lines, "", _may_not(user), ""]))
    return "\n".join(parts)


def _row(right: Right) -> str:
    on = f" {ACCESS[right.access]} {_named(right.patterns)}" if right.patterns else ""
    return f"| {_named(right.commands.split())} |{on} | {right.why} |"


def _may_not(user: User) -> str:
    """The keys that it cannot access, may only read, and may only write."""
    of: dict[str, list[str]] = {"": [], "R": [], "W": []}
    for pattern in patterns():
        of.setdefault(reach(user, pattern), []).append(pattern)
    closed = {"touch": of[""], "write": of["R"], "read": of["W"]}
    clauses = [
        f"{verb} {_named(found) if len(found) < len(patterns()) else 'any key'}"
        for verb, found in closed.items()
        if found
    ]
    return f"May not {'; '.join(clauses)}." if clauses else "No key is closed to it."


def patterns() -> list[str]:
    """The system's keys as patterns of an ACL."""
    return [pattern_of(key) for key in all_keys()]


def pattern_of(key: Key) -> str:
    return re.sub(r"\{.*", "*", key.pattern)


def with_vectors() -> list[User]:
    """The users where the same Redis stores vectors."""
    return [replace(user, rights=(*user.rights, *user.vectors)) for user in users()]


def writers(key: Key) -> str:
    """Their names; deleting is writing."""
    return ", ".join(user.name for user in with_vectors() if "W" in reach(user, pattern_of(key))) or "none"


def readers(key: Key) -> str:
    """The same without the owner, who may read every key."""
    return (
        ", ".join(one.name for one in with_vectors() if one.name != "owner" and "R" in reach(one, pattern_of(key)))
        or "none"
    )


def _named(names: list[str] | tuple[str, ...]) -> str:
    """Names for a cell of a table, with bars escaped."""
    return " ".join(f"`{name}`" for name in names).replace("|", "\\|")


def additions() -> str:
    """For each user, what to add to its line for vectors in the same Redis."""
    lines = [f"{user.name}: {' '.join(map(selector, user.vectors))}" for user in users() if user.vectors]
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--vectors"]:
        sys.stdout.write(additions())
        return
    ACL.write_text(acl(), encoding="utf-8")


if __name__ == "__main__":
    main()
