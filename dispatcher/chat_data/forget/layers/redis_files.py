"""Redis' own files and logs: removed data remains in them until they are rewritten and emptied.

That requires an administrator of Redis (REDIS_ADMIN_URL). The receipt names what was not done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redis import Redis, RedisError, ResponseError

from shared.config.settings import Settings
from shared.wire.client import COMMAND, open_redis

#: How long Redis may take to rewrite its files, and the time between two checks. Seconds.
REWRITE_SECONDS, LOOK_SECONDS = 300.0, 0.2
AOF, SNAPSHOT, SLOW_LOG, ACL_LOG = "append-only file", "snapshot", "slow log", "ACL log"
#: The commands that the owner runs instead.
BY_HAND = {AOF: "BGREWRITEAOF", SNAPSHOT: "BGSAVE SCHEDULE", SLOW_LOG: "SLOWLOG RESET", ACL_LOG: "ACL LOG RESET"}
_REMAINS = "removed data remains there until it is rewritten or emptied"

Say = Callable[[str], None]


@dataclass
class Rewritten:
    """`done`: file or log → what was done; `stays`: entries of the receipt for what was not."""

    done: dict[str, str] = field(default_factory=dict)
    stays: list[dict[str, str]] = field(default_factory=list)


def not_rewritten(settings: Settings) -> list[dict[str, str]]:
    """What will certainly remain: everything, if REDIS_ADMIN_URL is not set."""
    return [] if settings.redis_admin_url else [_stays([*BY_HAND], "REDIS_ADMIN_URL is not set")]


def rewrite(settings: Settings, client: Redis, say: Say, seconds: float = REWRITE_SECONDS) -> Rewritten:
    """Make the Redis of `client` rewrite its files, in at most `seconds`, and empty its logs."""
    if not settings.redis_admin_url:
        return Rewritten(stays=not_rewritten(settings))
    url = settings.redis_admin_url
    with closing(open_redis(url, COMMAND)) as administrator:
        if why := _not_that_redis(administrator, client):
            return Rewritten(stays=[_stays([*BY_HAND], why)])
        say(f"Redis is rewriting its files; waiting at most {seconds:g} s.")
        return _Rewriting(administrator, time.monotonic() + seconds).carry_out()


def _not_that_redis(administrator: Redis, client: Redis) -> str | None:
    """Why the two may be different servers, or None. Otherwise another server's files would be rewritten, and ours reported as done."""
    try:
        runs = {str(one.info("server")["run_id"]) for one in (administrator, client)}
    except RedisError as error:
        return f"it could not be checked whether REDIS_ADMIN_URL and REDIS_URL are the same server ({error})"
    return "REDIS_ADMIN_URL and REDIS_URL are different servers" if len(runs) > 1 else None


class _Rewriting:
    """Each file and log on its own: a failure of one does not affect the others."""

    def __init__(self, client: Redis, deadline: float) -> None:
        self._redis: Any = client
        self._deadline = deadline

    def carry_out(self) -> Rewritten:
        rewritten = Rewritten()
        for name, step in (
            (AOF, self._rewrite_aof),
            (SNAPSHOT, self._save),
            (SLOW_LOG, self._redis.slowlog_reset),
            (ACL_LOG, self._redis.acl_log_reset),
        ):
            try:
                if step():
                    rewritten.done[name] = "rewritten" if name in (AOF, SNAPSHOT) else "emptied"
            except RedisError as error:
                rewritten.stays.append(_stays([name], str(error)))
        try:
            replicas = int(self._redis.info("replication")["connected_slaves"])
        except RedisError:
            replicas = 0
        if replicas:
            rewritten.stays.append(
                _stays([*BY_HAND], f"a rewrite does not reach its {replicas} replica(s)", "of its replicas")
            )
        return rewritten

    def _rewrite_aof(self) -> bool:
        """False if there is none."""
        if not self._settled()["aof_enabled"]:
            return False
        self._run(self._redis.bgrewriteaof, "aof_rewrites", "aof_last_bgrewrite_status")
        return True

    def _save(self) -> bool:
        """False if Redis takes no snapshots and has taken none."""
        if not self._redis.config_get("save").get("save") and not self._settled()["rdb_saves"]:
            return False
        self._run(partial(self._redis.bgsave, schedule=True), "rdb_saves", "rdb_last_bgsave_status")
        return True

    def _run(self, begin: Callable[[], Any], counter: str, status: str) -> None:
        """Begin and wait. A rewrite that was already running is waited for first, because it may still contain the removed data."""
        before = self._settled()[counter]
        try:
            begin()
        except ResponseError as error:
            if "already in progress" not in str(error):  # started by Redis itself since our check, which is fine
                raise
        while (state := self._settled())[counter] == before and state[status] == "ok":
            self._sleep()
        if state[status] != "ok":
            raise ResponseError("Redis could not write it; check its log and the free disk space")

    def _settled(self) -> dict[str, Any]:
        """The state of Redis' files, once no rewrite is running."""
        while True:
            state: dict[str, Any] = self._redis.info("persistence")
            busy = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")
            if not any(state[name] for name in busy):
                return state
            self._sleep()

    def _sleep(self) -> None:
        if time.monotonic() > self._deadline:
            raise ResponseError("Redis did not finish in time")
        time.sleep(LOOK_SECONDS)


def _stays(names: list[str], why: str, of: str = "of Redis") -> dict[str, str]:
    commands = ", ".join(f"redis-cli {BY_HAND[name]}" for name in names)
    return {
        "what": f"{', '.join(names)} {of}",
        "why": f"{_REMAINS}, and {why}",
        "do": f"run {commands} there as an administrator (Redis user admin)",
    }
