"""How the night host logs in to Redis: as a user with the rights of a night alone, where Redis keeps such users; else as this installation does."""

from __future__ import annotations

import hashlib
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from dispatcher.installation.init.context import InitContext
from dispatcher.installation.journal import InstallationJournal
from dispatcher.installation.night_host.day_access import night_url
from dispatcher.installation.settings_files import new_key
from shared.errors import InstallationIncomplete
from shared.wire.acl import acl_rules
from shared.wire.client import asking_once, open_redis
from shared.wire.users import NIGHT

#: Ours: `night` may be another program's.
USER = "hmem-night-host"
_HERE = ("127.0.0.1", "localhost", "::1", "")


@dataclass(frozen=True)
class RedisLogin:
    """`address`: of Redis as this host reaches it (`unix:PATH` or `HOST:PORT`), None if the night host uses the URL as it is."""

    address: str | None
    user: str
    password: str
    database: str
    url: str
    sentence: str

    def url_through(self, socket: Path) -> str:
        """REDIS_URL of the night host."""
        if self.address is None:
            return self.url
        login = f"{quote(self.user)}:{quote(self.password, safe='')}@" if self.password else ""
        return f"unix://{login}{socket}?db={self.database}"


def redis_login(installation: InitContext, journal: InstallationJournal, *, keep: bool) -> RedisLogin:
    """`keep`: the night host has a login already; if Redis still knows it, it is not changed, and no password is returned."""
    own = night_url(installation.layout) if installation.layout.kind == "three-users" else ""
    url = own or installation.values["REDIS_URL"]
    parts = urlsplit(url)
    address = _address(url)
    plain = RedisLogin(address, unquote(parts.username or ""), unquote(parts.password or ""), _database(url), url, "")
    if own:
        return replace(plain, sentence=f"as its user {plain.user}")
    if "redis" in installation.settings().indexes:  # vectors there need rights that only newer versions know
        return replace(plain, sentence="with the login of this installation")
    with closing(open_redis(url, asking_once(5.0))) as client:
        if keep and _knows(client):
            return replace(plain, password="", sentence=f"as its user {USER}")
        password = new_key()
        if not _create(client, journal, password):
            return replace(plain, sentence="with the login of this installation, since it keeps no other users")
    return replace(plain, user=USER, password=password, sentence=f"as its new user {USER}, with the rights of a night")


def forget_login(installation: InitContext, journal: InstallationJournal) -> None:
    if journal.names("redis-user"):
        with closing(open_redis(installation.values["REDIS_URL"], asking_once(5.0))) as client:
            client.execute_command("ACL", "DELUSER", USER)  # type: ignore[no-untyped-call]
            with suppress(RedisError):  # then it knew no such user after its next start anyway
                _keep(client)


def _address(url: str) -> str | None:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix:{parts.path}"
    if parts.scheme == "rediss":  # its certificate names a host: through the tunnel it would name another
        if (parts.hostname or "") in _HERE:
            raise InstallationIncomplete(
                "REDIS_URL is rediss:// on this host alone, which the night host cannot reach. Set REDIS_URL to redis:// or to a name that both know."
            )
        return None
    return f"{parts.hostname or '127.0.0.1'}:{parts.port or 6379}"


def _database(url: str) -> str:
    parts = urlsplit(url)
    asked = dict(one.split("=", 1) for one in parts.query.split("&") if "=" in one)
    return asked.get("db") or (parts.path.strip("/") if parts.scheme != "unix" else "") or "0"


def _knows(client: Redis) -> bool:
    try:
        return client.acl_getuser(USER) is not None
    except RedisError:
        return False


def _create(client: Redis, journal: InstallationJournal, password: str) -> bool:
    """Whether Redis keeps it, in its file of users or in its settings file, so that it is there after a restart."""
    journal.add("redis-user", USER)
    hashes = {USER: hashlib.sha256(password.encode()).hexdigest()}
    rules = acl_rules(replace(NIGHT, name=USER), hashes)
    try:
        client.execute_command("ACL", "SETUSER", USER, *rules)  # type: ignore[no-untyped-call]
    except ResponseError:  # this login may not
        return False
    try:
        _keep(client)
    except ResponseError:
        client.execute_command("ACL", "DELUSER", USER)  # type: ignore[no-untyped-call]
        return False
    return True


def _keep(client: Redis) -> None:
    try:
        client.execute_command("ACL", "SAVE")  # type: ignore[no-untyped-call]
    except ResponseError:  # it has no file of users
        client.config_rewrite()
