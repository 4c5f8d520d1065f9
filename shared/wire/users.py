"""Who may do what in Redis: the users of users.toml with what the features require, and the syntax of Redis' ACL files.

To add a key: its line in `keys.toml` and its name in `keys.py`, a line in `users.toml` for each user that uses it, then
`.venv/bin/python scripts/redis_users.py` and `scripts/docs`.
`hmem doctor` checks the dispatcher's rights against it; `tests/end_to_end/test_redis_rights.py` tries every Redis command against it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from shared.hooks import feature_modules
from shared.wire import keys
from shared.wire.rights import Access, Right, User


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


def reach(user: User, pattern: str) -> str:
    """What a user may do to the keys of a pattern, not counting scripts: "", "R", "W" or "RW"."""
    access = {letter for right in user.rights if _has(right.patterns, pattern) for letter in right.access}
    return "".join(letter for letter in "RW" if letter in access)


def _has(patterns: Sequence[str], pattern: str) -> bool:
    return any(one == pattern or (one == keys.ALL and pattern.startswith(one[:-1])) for one in patterns)
