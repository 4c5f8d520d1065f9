"""Who may write: one night at a time.

A lock on the night directory, which the kernel releases when its holder dies, and a lease in Redis for night hosts that do not share a
directory. The lease contains a fencing token. The switch and the flush check it, so a night that was suspended and resumes too late
changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import redis
from redis import Redis

from shared.config.ownership import OURS
from shared.config.settings import Settings
from shared.errors import LeaseLost, NightRunning, PublishFailed, RedisUnavailable
from shared.release.manifest import FORMAT_VERSION
from shared.system.files import own_root
from shared.system.formats import claim, parse, refuse_newer_redis
from shared.wire import keys
from shared.wire.client import NIGHT, is_wrong_value, open_redis
from shared.wire.values import RUNS, shown

RENEW_SECONDS = 20.0
#: Seconds for a renewal that is in progress when the night ends.
LAST_RENEWAL_SECONDS = 10.0

_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('EXPIRE', KEYS[1], ARGV[2]) end return 0"
_TAKE_OVER = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) return 1 end return 0"
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def connect(settings: Settings) -> Redis:
    return open_redis(settings.redis_url, NIGHT)


class Lease:
    """The right to be the night, renewed in the background. `value` names token, host, directory and process."""

    def __init__(self, client: Redis, night_dir: Path) -> None:
        self._redis = client
        self._place = f"{socket.gethostname()} {night_dir.resolve()}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True, name="lease")
        self.token = 0
        self.value = ""

    def take(self) -> None:
        self.token = self._next_token()
        self.value = f"{self.token} {self._place} {os.getpid()}"
        if (
            not self._redis.set(keys.NIGHT_OWNER, self.value, nx=True, ex=keys.NIGHT_LEASE_TTL_SECONDS)
            and not self._take_over()
        ):
            owner = shown(cast(bytes, self._redis.get(keys.NIGHT_OWNER) or b"another host"))
            raise NightRunning(
                f"Another night holds the lease ({owner}). Try again when it has ended; the lease of a dead night expires in 90 s. "
                f"If the lease stays longer and no night is running, another program wrote it: redis-cli DEL {keys.NIGHT_OWNER}."
            )
        self._thread.start()

    def _next_token(self) -> int:
        """RedisUnavailable if the counter is not a number; nothing has started by then."""
        try:
            token = self._redis.incr(keys.NIGHT_RUN)
        except redis.ResponseError as error:
            if not is_wrong_value(error):
                raise
            token = 0
        if 0 < token < RUNS:
            return token
        raise RedisUnavailable(
            f"{keys.NIGHT_RUN} in Redis is not a valid run counter: another program wrote to it. Remove it (redis-cli DEL {keys.NIGHT_RUN}) and "
            "run the night again; it continues from the newest run in archive, releases and nights."
        )

    def _take_over(self) -> bool:
        """Take the lease from a night of this same directory: we hold its lock, so its process is dead."""
        owner = cast(bytes | None, self._redis.get(keys.NIGHT_OWNER))
        if owner is None or owner.decode("utf-8", "replace").partition(" ")[2].rpartition(" ")[0] != self._place:
            return False
        return bool(self._redis.eval(_TAKE_OVER, 1, keys.NIGHT_OWNER, owner, self.value, keys.NIGHT_LEASE_TTL_SECONDS))

    def _renew(self) -> None:
        while not self._stop.wait(RENEW_SECONDS):
            try:
                if not self._redis.eval(_RENEW, 1, keys.NIGHT_OWNER, self.value, keys.NIGHT_LEASE_TTL_SECONDS):
                    return  # lost: the next check raises
            except redis.RedisError:
                continue  # `check` decides

    def check(self) -> None:
        """LeaseLost unless we still hold the lease."""
        if cast(bytes | None, self._redis.get(keys.NIGHT_OWNER)) != self.value.encode():
            raise LeaseLost(
                "Another night took the lease while this one was suspended. Nothing more was changed; run the night again."
            )

    def give_back(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            # the caller closes its connection next; a hanging one must not hold the night
            self._thread.join(LAST_RENEWAL_SECONDS)
        try:
            self._redis.eval(_RELEASE, 1, keys.NIGHT_OWNER, self.value)
        except redis.RedisError:
            return  # it expires by itself


@contextmanager
def fenced() -> Iterator[None]:
    """Around a script that deletes and compares the lease itself: LeaseLost if it is another night's."""
    try:
        yield
    except redis.ResponseError as error:
        if "FENCED" in str(error):
            raise LeaseLost(
                "Another night took the lease before the flush; nothing more was deleted. Run the night again."
            ) from error
        raise


def _refuse_newer_keys(client: Redis) -> None:
    """FormatNewer if a newer program wrote our keys, or if the dispatcher could not read the releases that this program makes."""
    try:
        raw = cast(bytes | None, client.get(keys.FORMAT))
    except redis.ResponseError:  # another program wrote the key: hmem doctor says so
        return
    refuse_newer_redis(raw)
    found = parse(raw)
    if found is not None and found.release is not None and found.release < FORMAT_VERSION:
        raise PublishFailed(
            f"The dispatcher (hcli-memory {found.program}) reads releases up to format {found.release}, but this night would make format "
            f"{FORMAT_VERSION}, so it did not start. Upgrade the day host first, and start its dispatcher."
        )


@contextmanager
def night_lock(settings: Settings) -> Iterator[None]:
    """Hold the lock of the night directory, or NightRunning. The kernel releases it however its holder ends.

    StorageError if that directory, or one of ours in it, must not be used: every command that changes something there goes
    through here.
    """
    directory = own_root(settings.hmem_night_dir, OURS["hmem_night_dir"])
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NightRunning(
                f"A night is running on {settings.hmem_night_dir}. Wait until it ends; hmem-night status shows its steps."
            ) from error
        claim(directory, "hmem_night_dir")
        yield


@contextmanager
def only_night(settings: Settings) -> Iterator[tuple[Redis, Lease]]:
    """Hold the lock of the night directory and the lease in Redis, or NightRunning."""
    with night_lock(settings):
        client = connect(settings)
        _refuse_newer_keys(client)
        lease = Lease(client, settings.hmem_night_dir)
        lease.take()
        try:
            yield client, lease
        finally:
            lease.give_back()
            client.close()
