"""Checks of Redis: does it answer, do we have the rights that we need, does it keep data, does its clock agree with ours.

Whether it takes writes is tested without writing: after MULTI, Redis checks each command (memory, read-only) when it is queued, and drops the queued
commands when we disconnect.
"""

from __future__ import annotations

import json
from contextlib import closing, nullcontext
from itertools import islice
from typing import Any, cast

import redis
from redis import Redis
from redis.exceptions import NoPermissionError, RedisError

from dispatcher.health.findings import Fault, Finding, Setup, ok, problem, warning
from shared.errors import RedisUnavailable
from shared.text.format import counted
from shared.wire import keys
from shared.wire.client import asking_once, is_too_old, open_redis
from shared.wire.key_table import User
from shared.wire.users import users
from shared.wire.values import shown

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
        return shown(client.acl_whoami())
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
        "Redis' ACL file is older than this program, or was changed: as root, hmem init writes it anew and restarts Redis. In containers: "
        "docker compose up -d, then docker compose restart redis. By hand: take "
        f"the line of the user {user} from deploy/redis-users.acl, keep the hash of the password, and restart Redis."
    )


def check_rights(setup: Setup) -> Finding:
    """This user may do what the dispatcher does; one of our other users, what its own part does (shared/wire/users.toml): checked inside Redis by a
    script that changes nothing."""
    client, name = setup.redis, user_of(setup.redis)
    row = next(user for user in users() if user.name == (name if of_ours(name) else "dispatcher"))
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


#: Turns whose expiry is checked.
SAMPLED_TURNS = 10_000
#: Seconds of difference from which expiries, dates and the age of the last night are wrong.
FAR_SECONDS = 60.0


def check_redis(setup: Setup) -> Finding:
    """It answers, and is new enough."""
    place = setup.redis.connection_pool.connection_kwargs
    where = place.get("path") or f"{place.get('host')}:{place.get('port')}"
    try:
        version = str(setup.redis.info("server")["redis_version"])
    except NoPermissionError:
        return ok(f"Redis answers at {where}; this user may not ask for its version.")
    if is_too_old(version):
        return problem(
            RedisUnavailable.exit_code,
            f"Redis {version} at {where} is too old: the dispatcher needs 7.0 or newer.",
            "Update Redis, or set REDIS_URL to a newer one.",
        )
    _refuse_unless_writable(setup.redis)
    return ok(f"Redis {version} answers at {where}.")


def _refuse_unless_writable(client: redis.Redis) -> None:
    """RedisUnavailable if it takes no writes."""
    connection: Any = client.connection_pool.get_connection()
    try:
        for words in (("MULTI",), ("RPUSH", keys.TASKS, "x")):
            connection.send_command(*words)
            connection.read_response()
    except NoPermissionError:  # which the check of the rights names
        return
    except redis.ReadOnlyError as error:
        raise RedisUnavailable(
            "Redis is a read-only replica, so nothing can be stored. Set REDIS_URL to its primary."
        ) from error
    finally:
        connection.disconnect()  # Redis forgets what is queued
        client.connection_pool.release(connection)


def check_eviction(setup: Setup) -> Finding:
    """Nothing is evicted when memory is full."""
    memory = setup.redis.info("memory")
    policy, limit = str(memory["maxmemory_policy"]), int(memory["maxmemory"])
    if policy == "noeviction":
        return ok("Redis never evicts (noeviction).")
    every = policy.startswith("allkeys")
    lost = "turns that no night has archived yet" if every else "sessions and marks of finished tasks"
    when = "when its memory is full" if limit else "as soon as maxmemory is set and reached"
    return problem(
        Fault.EVICTION_POLICY,
        f"Redis' eviction policy is {policy}: {when}, it silently drops {lost}.",
        "redis-cli CONFIG SET maxmemory-policy noeviction, then redis-cli CONFIG REWRITE.",
    )


def check_persistence(setup: Setup) -> Finding:
    """Data in Redis survives a restart."""
    state = setup.redis.info("persistence")
    fix = "redis-cli CONFIG SET appendonly yes, then redis-cli CONFIG REWRITE."
    for part, field in (("append-only file", "aof_last_write_status"), ("snapshot", "rdb_last_bgsave_status")):
        if state.get(field, "ok") != "ok":
            return problem(
                Fault.PERSISTENCE,
                f"Redis could not write its last {part}, so new turns may be lost when it restarts.",
                "Check Redis' log and the free space of its disk.",
            )
    if state["aof_enabled"]:
        return ok("Redis writes its append-only file.")
    try:
        schedule = str(setup.redis.config_get("save").get("save", ""))
    except NoPermissionError:
        return warning(
            "Redis writes no append-only file, and this user may not check whether it takes snapshots: turns of today may be lost.",
            fix,
        )
    sentence = (
        "Redis writes nothing to disk, neither an append-only file nor snapshots: a restart loses all turns of the day."
    )
    if schedule:
        sentence = f"Redis takes snapshots only (save {schedule}): turns since the last one are lost in a crash."
    return problem(Fault.PERSISTENCE, sentence, fix)


def check_restart(setup: Setup) -> Finding:
    """A restart of Redis gives everything back: it replays its append-only file as its user `default`, and skips the transactions that this user may
    not run."""
    skipped = _skipped(setup)
    lacks = f" It skipped {counted(skipped, 'command')} at its last start." if skipped else ""
    try:
        refused = _not_replayed(setup.redis)
    except NoPermissionError:
        if not of_ours(user := user_of(setup.redis)):
            raise
        sentence = f"The Redis user {user} may not ask whether a restart of Redis keeps everything; without these rights it does not."
        return problem(Fault.REDIS_RIGHTS, sentence + lacks, to_do(user))
    if refused:
        sentence = (
            "A restart of Redis loses turns: it replays its append-only file as its user default, who may not run "
            f"{', '.join(refused[:SHOWN])}{' …' if len(refused) > SHOWN else ''}.{lacks}"
        )
        return problem(Fault.PERSISTENCE, sentence, to_do("default"))
    if skipped:
        sentence = (
            f"Redis lacks turns.{lacks} They come back if it is restarted before it rewrites its append-only file."
        )
        return problem(Fault.PERSISTENCE, sentence, "Restart Redis now.")
    return ok("Redis' user default may run all that its append-only file contains, so a restart gives everything back.")


def _not_replayed(client: redis.Redis) -> list[str]:
    """The commands with which our users write, and which `default` may not run on our keys."""
    writing = [right for user in users() for right in user.rights if "W" in right.access]
    names = dict.fromkeys((name, right.patterns[0]) for right in writing for name in right.commands.split())
    # EVAL is in no file.
    calls = [words_of(name, pattern.replace("*", PROBE)) for name, pattern in names if name != "EVAL"]
    with client.pipeline(transaction=False) as pipe:
        for words in calls:
            pipe.execute_command("ACL", "DRYRUN", "default", *words)  # type: ignore[no-untyped-call]
        answers = pipe.execute(raise_on_error=False)
    if denied := next((one for one in answers if isinstance(one, NoPermissionError)), None):
        raise denied
    judged = zip(calls, answers, strict=True)
    refused = (words[0] for words, one in judged if isinstance(one, bytes | str) and "OK" not in str(one))
    return list(dict.fromkeys(refused))


def _skipped(setup: Setup) -> int:
    """Commands of transactions that Redis has skipped since it started, as its log of refusals has them; 0 if we may not read that."""
    url = setup.settings.redis_admin_url
    with closing(open_redis(url, asking_once(5.0))) if url else nullcontext(setup.redis) as client:
        try:
            entries: Any = client.acl_log(1000)
        except redis.RedisError:
            return 0
    wanted = ("default", "multi")
    return sum(int(one["count"]) for one in entries if (shown(one["username"]), shown(one["context"])) == wanted)


def check_clock(setup: Setup) -> Finding:
    """The clock here and that of Redis agree."""
    seconds, micros = setup.redis.time()
    apart = setup.now() - (int(seconds) + int(micros) / 1_000_000)
    if abs(apart) <= FAR_SECONDS:
        return ok(f"The clocks of this host and of Redis agree ({abs(apart):.1f} s apart).")
    return problem(
        Fault.CLOCK,
        f"The clock of this host is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} Redis': dates of turns "
        "and the age of the last night are wrong.",
        "Switch on time synchronisation on both hosts (timedatectl set-ntp true).",
    )


def check_expiry(setup: Setup) -> Finding:
    """Turns stay until a night has archived them. h-cli's dispatcher lets them expire after four hours."""
    client: Any = setup.redis
    names = list(islice(client.scan_iter(match=keys.MEMORY_PREFIX + "*", count=5000), SAMPLED_TURNS))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.ttl(name)
        lives = [seconds for seconds in pipe.execute() if seconds >= 0]
    if not lives:
        return ok("No turn in Redis expires before a night has archived it.")
    sample = "" if len(names) < SAMPLED_TURNS else f" of {SAMPLED_TURNS} that were checked"
    return problem(
        Fault.PERSISTENCE,
        f"{len(lives)} turns{sample} expire in Redis, the first in {min(lives) / 3600:.1f} hours, the last in {max(lives) / 3600:.1f}: "
        "h-cli's dispatcher wrote them, and what no night has archived by then is lost.",
        "Run hmem-night run now. Then replace that dispatcher with hmem run, or give it SESSION_TTL=172800 and run the night daily.",
    )
