"""The rights of shared/wire/users.toml in the syntax of Redis' ACL files: `deploy/redis-users.acl`, and the file that `hmem init` writes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from shared.wire import keys
from shared.wire.rights import Right, User
from shared.wire.users import users

#: Nobody can log in as this user. It has every right, because Redis replays its append-only file as `default`: without a right, a restart skips every
#: transaction that needs it, which includes each script that writes twice, and goes on.
DEFAULT = "user default reset off ~* &* +@all"


def acl(passwords: Mapping[str, str] | None = None) -> str:
    """The file that Redis loads, with the SHA-256 of each user's password; without passwords `deploy/new-secrets` inserts the hashes."""
    hashes = {name: hashlib.sha256(one.encode()).hexdigest() for name, one in (passwords or {}).items()}
    return "".join(f"{line}\n" for line in [DEFAULT, *(acl_line(user, hashes) for user in users())])


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


def acl_line(user: User, hashes: Mapping[str, str] | None = None) -> str:
    return " ".join(["user", user.name, *acl_rules(user, hashes)])


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
