"""The Redis of an installation: the one that REDIS_URL names, or our own.

Another Redis on this host is left alone: it may belong to a program that needs its settings to be otherwise. Our own requires a password, never
evicts, and writes its append-only file.
"""

from __future__ import annotations

import socket
from contextlib import closing, suppress

from redis.exceptions import RedisError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from dispatcher.installation.init.in_progress import InstallationInProgress
from dispatcher.installation.layout import LONGEST_SOCKET, Layout, give
from dispatcher.installation.settings_files import new_key, redis_users_file, write_redis_users, write_settings
from shared.config.sources import WRITTEN_BY, is_of_init
from shared.errors import InstallationIncomplete
from shared.system.files import write_atomic
from shared.wire.client import asking_once, is_too_old, open_redis

FIRST_PORT = 6379
START_SECONDS = 60.0
CONF = f"""\
{WRITTEN_BY} for this installation alone. Turns are here until the night: do not switch the append-only file off.
dir {{directory}}
dbfilename hmem.rdb
appendonly yes
appendfsync everysec
save 3600 1
maxmemory-policy noeviction
daemonize no
logfile ""
{{listen}}
"""


def choose_redis(installation: InstallationInProgress) -> str:
    """Which Redis will be used, for the plan."""
    conf = installation.layout.redis / "redis.conf"
    installation.own_redis = is_of_init(conf) or not installation.values.get("REDIS_URL")
    return "a Redis of its own, with a password" if installation.own_redis else "the Redis of REDIS_URL"


def write_redis(installation: InstallationInProgress) -> str:
    """The files of our own Redis, before it is started; all of them anew if a run was killed between two."""
    layout, values = installation.layout, installation.values
    conf = layout.redis / "redis.conf"
    if not installation.own_redis:
        return "uses the one of REDIS_URL"
    if conf.exists() and values.get("REDIS_URL"):
        return "there already"
    if layout.kind == "three-users":
        port = _free_port()
        write_redis_users(layout, port)
        listen = f"bind 127.0.0.1\nport {port}\naclfile {redis_users_file(layout)}"
        values.pop("REDIS_URL", None)
    else:
        listen, values["REDIS_URL"] = _of_one_user(layout)
        # The address before the file that it belongs to.
        write_settings(layout, {"REDIS_URL": values["REDIS_URL"]}, own_redis=True)
    write_atomic(conf, CONF.format(directory=layout.redis, listen=listen).encode())
    give(conf, 0o600, layout.redis_user)
    return f"configured in {conf}"


def _of_one_user(layout: Layout) -> tuple[str, str]:
    """Lines of the configuration, and the URL."""
    password, path = new_key(), layout.redis / "redis.sock"
    if len(str(path)) <= LONGEST_SOCKET:
        listen = f"port 0\nunixsocket {path}\nunixsocketperm 700\nrequirepass {password}"
        return listen, f"unix://:{password}@{path}?db=0"
    port = _free_port()
    return f"bind 127.0.0.1\nport {port}\nrequirepass {password}", f"redis://:{password}@127.0.0.1:{port}/0"


def check_redis(installation: InstallationInProgress, url: str) -> str:
    """Wait until it answers. InstallationIncomplete if it does not, or is too old; what else memory needs of it, the doctor says at the end."""
    trying = Retrying(
        retry=retry_if_exception_type(RedisError),
        stop=stop_after_delay(START_SECONDS if installation.own_redis else 5.0),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    with closing(open_redis(url, asking_once(5.0))) as client:
        try:
            trying(client.ping)
        except RedisError as error:
            where = f"Its log is {installation.layout.redis / 'redis.log'} or the journal (journalctl -u hmem-redis)"
            raise InstallationIncomplete(
                f"Redis does not answer ({error}). {where}; correct that, then run hmem init again."
            ) from error
        version = str(client.info("server")["redis_version"])
        if is_too_old(version):
            raise InstallationIncomplete(
                f"Redis {version} is too old, 7.0 is the oldest that works. Install a newer one, or set REDIS_URL to another."
            )
        return f"Redis {version} answers"


def _free_port() -> int:
    for port in range(FIRST_PORT, FIRST_PORT + 100):
        with suppress(OSError), closing(socket.socket()) as tried:
            tried.bind(("127.0.0.1", port))
            return port
    raise InstallationIncomplete("No port from 6379 to 6478 is free for Redis. Set REDIS_URL to a Redis that runs.")
