"""Whether our Redis user has the rights of its rows (shared/wire/users.py): checked inside Redis by a script that changes nothing."""

from __future__ import annotations

import json
from typing import cast

from redis import Redis
from redis.exceptions import NoPermissionError, RedisError

from dispatcher.health.findings import Fault, Finding, Setup, ok, problem
from shared.wire.rights import User
from shared.wire.users import DISPATCHER, users

#: Refusals that are named.
SHOWN = 4
#: Replaces an id in a key.
PROBE = "doctor"
#: Arguments after the key, so that their number is right.
ARGUMENTS = {
    "LRANGE": "0 0", "LREM": "1 x", "LPUSH": "x", "RPUSH": "x", "LTRIM": "0 -1", "EXPIRE": "60", "PEXPIRE": "60", "SET": "x", "INCRBY": "1",
    "HGET": "x", "HSET": "x x", "HDEL": "x", "HEXISTS": "x", "HINCRBY": "x 1", "HINCRBYFLOAT": "x 1", "LINDEX": "0",
    "LPOS": "x", "HMGET": "x", "ZADD": "1 x", "ZRANGE": "0 0", "ZSCORE": "x", "ZREM": "x", "ZREMRANGEBYRANK": "0 0", "SADD": "x", "SREM": "x",
    "ZREMRANGEBYSCORE": "0 0", "LSET": "0 x", "BLMOVE": "KEY LEFT LEFT 1", "LMOVE": "KEY LEFT LEFT", "HSETNX": "x x", "SRANDMEMBER": "1",
}  # fmt: skip
#: The positions, from 1, of the commands (ARGV: the words of each as JSON) that this user is denied.
_DENIED = """
local denied = {}
for i, words in ipairs(ARGV) do
  local asked, allowed = pcall(redis.acl_check_cmd, unpack(cjson.decode(words)))
  if asked and not allowed then denied[#denied + 1] = i end
end
return denied
"""


def user_of(client: Redis) -> str:
    """Its name, from Redis, or from REDIS_URL if it may not ask Redis."""
    try:
        name = client.acl_whoami()
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    except RedisError:
        return str(client.connection_pool.connection_kwargs.get("username") or "default")


def of_ours(name: str) -> User | None:
    """The row of the table if it is one of our users, else None."""
    return next((user for user in users() if user.name == name), None)


def words_of(name: str, key: str) -> list[str]:
    """The words of a call of this command on that key."""
    return [*name.split("|"), key, *ARGUMENTS.get(name, "").replace("KEY", key).split()]


def to_do(user: str) -> str:
    """What to do for a user that lacks a right: rights are not granted one by one."""
    if of_ours(user) is None:
        return f"Give {user} the rules of the user dispatcher in deploy/redis-users.acl (ACL SETUSER), or set REDIS_URL to that user."
    return (
        "Redis' ACL file is older than this program, or was changed: as root, hmem doctor --fix writes it anew and restarts Redis. In containers: "
        "docker compose up -d, then docker compose restart redis. By hand: take "
        f"the line of the user {user} from deploy/redis-users.acl, keep the hash of the password, and restart Redis."
    )


def check_rights(setup: Setup) -> Finding:
    """This user may do what the dispatcher does; one of our other users, what its own part does."""
    client, name = setup.redis, user_of(setup.redis)
    row = next(user for user in users() if user.name == (name if of_ours(name) else DISPATCHER.name))
    if not row.scripts:
        what = "is for h-cli's programs" if row.selectors else "may touch no key"
        return problem(
            Fault.REDIS_RIGHTS,
            f"REDIS_URL names the Redis user {name}, which {what}, so that nothing can be read or stored.",
            "Use the user of this part: owner for the owner's commands, dispatcher for hmem run. (admin is for REDIS_ADMIN_URL.)",
        )
    calls = [[*one.upper().split("|")] for one in row.keyless]
    for right in row.rights:
        for command in right.commands.split() if right.patterns else ():
            calls += [words_of(command, pattern.replace("*", PROBE)) for pattern in right.patterns]
    try:
        script = client.register_script(_DENIED)
        places = cast(list[int], script(args=[json.dumps(words) for words in calls]))
    except NoPermissionError as error:
        return problem(Fault.REDIS_RIGHTS, f"The Redis user {name} may not run our scripts: {error}.", to_do(name))
    denied = list(dict.fromkeys(" ".join(calls[place - 1][:2]).replace(PROBE, "*") for place in places))
    if not denied:
        return ok(f"The Redis user {name} has all rights of {row.name} (deploy/redis-users.acl).")
    more = f" and {len(denied) - SHOWN} more" if len(denied) > SHOWN else ""
    return problem(
        Fault.REDIS_RIGHTS,
        f"The Redis user {name} is denied {', '.join(denied[:SHOWN])}{more}, so whatever requires that fails.",
        to_do(name),
    )
