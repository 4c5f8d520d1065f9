"""Generate deploy/redis-users.acl from shared/wire/users.toml.

.venv/bin/python scripts/redis_users.py            writes the file
.venv/bin/python scripts/redis_users.py --vectors  prints what to add for vectors in the same Redis
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

from shared.wire import keys
from shared.wire.key_table import Key, User
from shared.wire.users import acl, selector, users

ACL = Path(__file__).parent.parent / "deploy" / "redis-users.acl"


def pattern_of(key: Key) -> str:
    return re.sub(r"\{.*", "*", key.pattern)


def with_vectors() -> list[User]:
    """The users where the same Redis stores vectors."""
    return [replace(user, rights=(*user.rights, *user.vectors)) for user in users()]


def reaching(key: Key, letter: str) -> list[str]:
    """The names of the users that may read (R) or write (W) it, not counting scripts."""
    patterns = {pattern_of(key), keys.ALL}
    rights = {user.name: [one for one in user.rights if letter in one.access] for user in with_vectors()}
    return [name for name, some in rights.items() if any(patterns & {*one.patterns} for one in some)]


def writers(key: Key) -> str:
    """Their names; deleting is writing."""
    return ", ".join(reaching(key, "W")) or "none"


def readers(key: Key) -> str:
    """The same without the owner, who may read every key."""
    return ", ".join(name for name in reaching(key, "R") if name != "owner") or "none"


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
