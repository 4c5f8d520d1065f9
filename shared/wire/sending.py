"""Connections to Redis from which a task can be cancelled at any moment.

redis-py sends within `asyncio.wait_for`. Up to Python 3.11 that swallows a cancellation which arrives in the very moment in which the sending is
done (https://github.com/python/cpython/issues/81839): the task continues, and its canceller waits forever. `asyncio.timeout` does not do that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis import TimeoutError as RedisTimeoutError
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection

if TYPE_CHECKING:
    _Base = AbstractConnection
else:
    _Base = object


class _Cancellable(_Base):
    async def send_packed_command(self, *args: Any, **named: Any) -> None:
        """Sends as redis-py does without a limit, and puts the limit (`socket_timeout`, in seconds) around it."""
        limit, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit):
                await super().send_packed_command(*args, **named)
        except TimeoutError as error:
            raise RedisTimeoutError("Timeout writing to socket") from error
        finally:
            self.socket_timeout = limit


class _Tcp(_Cancellable, Connection):
    pass


class _Tls(_Cancellable, SSLConnection):
    pass


class _Unix(_Cancellable, UnixDomainSocketConnection):
    pass


_CANCELLABLE: dict[type, type[AbstractConnection]] = {
    Connection: _Tcp,
    SSLConnection: _Tls,
    UnixDomainSocketConnection: _Unix,
}


def make_cancellable(client: Redis) -> None:
    """From here on, for every connection that the client opens."""
    pool = client.connection_pool
    pool.connection_class = _CANCELLABLE[pool.connection_class]
