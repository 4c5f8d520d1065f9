"""Every Redis client that our processes open, each with a named policy: how long it waits, and how often it retries.

If a key has a value of the wrong type, the error names that key: other programs with write access to Redis can store anything there.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.text.logs import hidden
from shared.wire.values import shown

# redis-py imports the SDK of OpenTelemetry where it is installed (Chroma brings it), for metrics that we do not use: a third of what it takes.
with hidden("opentelemetry"):
    from redis import Redis, ResponseError
    from redis import TimeoutError as RedisTimeoutError
    from redis.asyncio import Redis as AsyncRedis
    from redis.asyncio.retry import Retry as AsyncRetry
    from redis.backoff import ExponentialBackoff, NoBackoff
    from redis.connection import Connection
    from redis.exceptions import OutOfMemoryError
    from redis.retry import Retry

#: The oldest version of Redis that has every command we use.
OLDEST_REDIS = (7, 0)

#: How Redis reports that a key has another type, or a value that is not a number.
_WRONG_VALUE = re.compile(r"WRONGTYPE|value is not an? (?:integer|float|valid float)|would overflow")


@dataclass(frozen=True)
class Policy:
    """How a client deals with a Redis that is slow or unavailable. All times are seconds."""

    answer: float  # within which Redis must answer
    connect: float  # within which it must accept a connection
    retries: int | None = None  # after a failure; None: as redis-py does by itself
    longest_pause: float = 0.0  # between two of them
    health_check: float = 0.0  # without a command before the connection is checked ahead of the next; 0: never
    protocol: int | None = None  # RESP version
    also_when_full: bool = False  # whether ALSO_WHEN_FULL is written to a Redis that has reached its maxmemory

    def options(self, retry: type[Retry] | type[AsyncRetry]) -> dict[str, Any]:
        """What redis-py calls this."""
        options: dict[str, Any] = {"socket_timeout": self.answer, "socket_connect_timeout": self.connect}
        if self.health_check:
            options["health_check_interval"] = self.health_check
        if self.protocol:
            options["protocol"] = self.protocol
        if self.retries is not None:
            pauses = ExponentialBackoff(cap=self.longest_pause, base=0.1) if self.retries else NoBackoff()
            options["retry"] = retry(pauses, self.retries)
        return options


#: A command of the owner's.
COMMAND = Policy(answer=30, connect=5)
#: Consolidation, concurrent with answers.
BACKGROUND = Policy(answer=30, connect=5)
#: The dispatcher: its socket waits longer than the longest blocking call (5 s), and it reconnects by itself.
DISPATCHER = Policy(answer=15, connect=5, retries=3, longest_pause=2, health_check=30)
#: A bot: people wait for it.
BOT = Policy(answer=10, connect=5, retries=2, longest_pause=1, health_check=30)
#: The night: each of its requests may be repeated. Only it empties a Redis that is full.
NIGHT = Policy(answer=60, connect=10, retries=3, longest_pause=2, health_check=30, also_when_full=True)
#: The MCP server: Claude waits for it.
MCP_SERVER = Policy(answer=3, connect=3)
#: The receiver of a release, on the day host.
RECEIVER = Policy(answer=30, connect=10)


def asking_once(seconds: float) -> Policy:
    """For callers that report a failure immediately instead of retrying."""
    return Policy(answer=seconds, connect=seconds, retries=0)


def open_redis(url: str, policy: Policy = COMMAND) -> Redis:
    """ValueError if this is not a Redis URL. The connection is opened with the first command."""
    through: dict[str, Any] = {}
    if "?ssh=" in url:
        through["connection_class"] = SshConnection
    kind = _AlsoWhenFull if policy.also_when_full else _Naming
    client: Redis = kind.from_url(url, **policy.options(Retry), **through)
    return client


def open_async_redis(url: str, policy: Policy = DISPATCHER) -> AsyncRedis:
    """The same for asyncio; its tasks can be cancelled at any moment."""
    client: AsyncRedis = _AsyncNaming.from_url(url, **policy.options(AsyncRetry))
    pool = client.connection_pool
    pool.connection_class = type("CancellableConnection", (_Cancellable, pool.connection_class), {})
    return client


class _Cancellable:
    """A connection of redis-py's, of whatever kind, whose task can be cancelled at any moment.

    redis-py sends within `asyncio.wait_for`. Up to Python 3.11 that swallows a cancellation which arrives in the very moment in which the sending is
    done (https://github.com/python/cpython/issues/81839): the task continues, and its canceller waits forever. `asyncio.timeout` does not do that.
    """

    socket_timeout: float | None

    async def send_packed_command(self, *args: Any, **named: Any) -> None:
        """Sends as redis-py does without a limit, and puts the limit (`socket_timeout`, in seconds) around it."""
        limit, self.socket_timeout = self.socket_timeout, None
        connection: Any = super()
        try:
            async with asyncio.timeout(limit):
                await connection.send_packed_command(*args, **named)
        except TimeoutError as error:
            raise RedisTimeoutError("Timeout writing to socket") from error
        finally:
            self.socket_timeout = limit


def is_too_old(version: str) -> bool:
    """Whether a version from `INFO server` is older than OLDEST_REDIS."""
    return tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS


def is_wrong_value(error: BaseException) -> bool:
    """Whether Redis reports that a key does not have the type that we store there."""
    return isinstance(error, ResponseError) and bool(_WRONG_VALUE.search(str(error)))


class SshConnection(Connection):
    """For URLs like `redis://night:…@hmem-day/0?ssh=CONFIG`: the host is one of that ssh configuration, where its
    forced command leads to Redis (shared/delivery/receiver.py)."""

    def __init__(self, *, ssh: str, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._config = ssh
        self._process: subprocess.Popen[bytes] | None = None

    def _connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            command, end = ["ssh", "-F", self._config, "-T", self.host, "redis"], theirs.fileno()
            self._process = subprocess.Popen(command, stdin=end, stdout=end, start_new_session=True)
        ours.settimeout(self.socket_timeout)
        return ours

    def disconnect(self, *arguments: Any, **named: Any) -> None:
        super().disconnect(*arguments, **named)  # type: ignore[no-untyped-call]
        if self._process and os.getpid() == self.pid:  # a fork's copy leaves it alone
            self._process.terminate()
            self._process.wait()
            self._process = None


class _Naming(Redis):
    """Adds the key to an error about a value of the wrong type. (A pipeline names the command by itself.)"""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            if not is_wrong_value(error):
                raise
            raise _naming(error, args) from error


#: What a night writes before it has deleted anything: its number, lease and marks, all of them small.
ALSO_WHEN_FULL = ("SET", "INCRBY", "HSETNX")
_WITH_ROOM = "#!lua flags=allow-oom\nreturn redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"


class _AlsoWhenFull(_Naming):
    """The commands ALSO_WHEN_FULL are repeated as a script that may exceed `maxmemory`."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute_command(*args, **options)
        except OutOfMemoryError:
            if args[0] not in ALSO_WHEN_FULL:
                raise
            return self.register_script(_WITH_ROOM)(keys=[args[1]], args=[args[0], *args[2:]])


class _AsyncNaming(AsyncRedis):
    """The same."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            if not is_wrong_value(error):
                raise
            raise _naming(error, args) from error


def _naming(error: ResponseError, command: Sequence[Any]) -> ResponseError:
    """With the keys that may have caused it: all of a script's, else the first."""
    script = str(command[0]).upper() in ("EVAL", "EVALSHA")
    names = command[3 : 3 + int(command[2])] if script else command[1:2]
    return ResponseError(f"{str(error).rstrip('.')}: {' or '.join(map(shown, names))}")
