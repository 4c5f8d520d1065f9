"""Who may do what in Redis: the users of users.toml with what the features require, and the syntax of Redis' ACL files.

To add a key: its line in `keys.toml` and its name in `keys.py`, a line in `users.toml` for each user that uses it, then
`.venv/bin/python scripts/redis_users.py` and `scripts/docs`.
`hmem doctor` checks the dispatcher's rights against it; `tests/end_to_end/test_redis_rights.py` tries every Redis command against it.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from shared.hooks import feature_modules
from shared.wire import keys
from shared.wire.key_table import Access, Right, User


@cache
def users() -> tuple[User, ...]:
    """The users, with what the features require."""
    table = tomllib.loads((Path(__file__).parent / "users.toml").read_text(encoding="utf-8"))
    of_features = [module.RIGHTS for module in feature_modules("keys")]
    found = list[User]()
    for name, user in table.items():
        more = [right for one in of_features for right in one.get(name, ())]
        rights, vectors = (*_rights(user.pop("rights")), *more), _rights(user.pop("vectors", ()))
        found.append(User(name, rights=rights, vectors=vectors, **user))
    return tuple(found)


def _rights(rows: Iterable[Sequence[str]]) -> tuple[Right, ...]:
    return tuple(
        Right(commands, cast(Access, access), tuple(patterns.split()), why) for access, commands, patterns, why in rows
    )


#: Nobody can log in as this user. It has every right, because Redis replays its append-only file as `default`: without a right, a restart skips every
#: transaction that needs it, which includes each script that writes twice, and goes on.
DEFAULT = "user default reset off ~* &* +@all"


def acl(passwords: Mapping[str, str] | None = None) -> str:
    """The file that Redis loads, with the SHA-256 of each user's password; without passwords `deploy/new-secrets` inserts the hashes."""
    hashes = {name: hashlib.sha256(one.encode()).hexdigest() for name, one in (passwords or {}).items()}
    return "".join(
        f"{line}\n"
        for line in [DEFAULT, *(" ".join(["user", user.name, *acl_rules(user, hashes)]) for user in users())]
    )


def renewed(text: str) -> str:
    """An existing ACL file with the rights of this version. Passwords, users that it lacks and users that are not ours stay as they are."""
    given = [line.split() for line in text.splitlines() if line.strip()]
    ours = {user.name: user for user in users()}
    lines = [DEFAULT]
    for words in given:
        user = ours.get(words[1]) if len(words) > 1 else None
        if user:
            passwords = [word for word in words if word.startswith("#")] or ["nopass"]
            rules = ["reset", "on", *passwords, *acl_rules(user)[3:]]
            vectors = user.vectors if keys.vector_release("") in " ".join(words) else ()
            lines.append(" ".join(["user", user.name, *rules, *map(selector, vectors)]))
        elif words[:2] != ["user", "default"]:
            lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


def acl_rules(user: User, hashes: Mapping[str, str] | None = None) -> list[str]:
    """The same as arguments of ACL SETUSER, after the name."""
    placeholder = f"{user.name.upper().replace('-', '_')}_PASSWORD_SHA256"
    password = f"#{(hashes or {}).get(user.name, placeholder)}" if user.password else "nopass"
    keyless = [f"+{name}" for name in user.keyless]
    return ["reset", "on", password, *keyless, *map(selector, user.selectors)]


def selector(right: Right) -> str:
    """These commands on these keys."""
    mark = "~" if right.access == "RW" else f"%{right.access}~"
    return f"({' '.join([*(mark + one for one in right.patterns), *(f'+{name}' for name in right.names)])})"
