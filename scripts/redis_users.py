"""Generate deploy/redis-users.acl from shared/wire/users.toml.

.venv/bin/python scripts/redis_users.py            writes the file
.venv/bin/python scripts/redis_users.py --vectors  prints what to add for vectors in the same Redis
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from shared.wire.key_table import User
from shared.wire.users import acl, selector, users

ACL = Path(__file__).parent.parent / "deploy" / "redis-users.acl"


def with_vectors() -> list[User]:
    """The users where the same Redis stores vectors."""
    return [replace(user, rights=(*user.rights, *user.vectors)) for user in users()]


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
