"""A Redis with the users of deploy/redis-users.acl."""

from __future__ import annotations

import signal
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from redis import Redis

from shared.wire.users import selector, users
from tests.support.machine import free_port, wait_for
from tests.support.world import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
USERS = ("bot", "hcli-bot", "dispatcher", "hcli-dispatcher", "night", "owner", "admin")


@dataclass
class Guarded:
    """A Redis with our users, started with the options of the compose file. `tester` may do everything."""

    port: int
    folder: Path
    urls: dict[str, str]
    command: Sequence[str] = ()
    users: Path = Path()
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def log(self) -> Path:
        return self.folder / "redis.log"

    def start(self) -> None:
        """Also again, with what is in its directory."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log)
        wait_for(lambda: health(self.port) == "PONG" or self.process.poll() is not None, "redis-server")
        assert self.process.poll() is None, self.log.read_text()[-2000:]

    def stop(self, sign: signal.Signals) -> None:
        self.process.send_signal(sign)
        self.process.wait()

    def client(self, user: str) -> Redis:
        client: Redis = Redis.from_url(self.urls[user])
        return client


@contextmanager
def guarded_redis(
    folder: Path, *more: str, program: str = "redis-server", additions: Mapping[str, str] | None = None
) -> Iterator[Guarded]:
    """Redis with our users, `folder` its directory. `more` options of its own; `additions`: what to add to a user's line."""
    folder.mkdir(parents=True, exist_ok=True)
    port, secrets = free_port(), folder.parent / f"{folder.name}-secrets"
    subprocess.run([str(DEPLOY / "new-secrets"), "--redis", f"127.0.0.1:{port}", str(secrets)], check=True)
    users = secrets / "redis-users.acl"
    more_rights, lines = additions or {}, users.read_text().splitlines()
    lines = [f"{line} {more_rights.get(line.split()[1], '')}".rstrip() + "\n" for line in lines]
    users.write_text("".join(lines) + "user tester reset on nopass ~* &* +@all\n")
    urls = {user: tomllib.loads((secrets / f"{user}.toml").read_text())["REDIS_URL"] for user in USERS}
    command = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["redis"]["command"]
    command = [str(users) if part == "/etc/redis/users.acl" else part for part in command]
    command[0] = program
    here = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendfsync", "no"]
    more_urls = {"tester": f"redis://tester:x@127.0.0.1:{port}/0"}
    guarded = Guarded(port, folder, urls | more_urls, [*command, *here, *more], users)
    try:
        guarded.start()
        yield guarded
    finally:
        guarded.stop(signal.SIGKILL)  # nothing is to be written any more


def vector_additions() -> dict[str, str]:
    """What users may do besides where vectors are kept in Redis 8 (docs/redis-keys.md)."""
    return {user.name: " ".join(map(selector, user.vectors)) for user in users() if user.vectors}


def health(port: int) -> str:
    """As the compose file asks."""
    asked = ["redis-cli", "-p", str(port), "--user", "health", "--pass", "none", "--no-auth-warning", "ping"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def refusals(admin: Redis) -> list[Any]:
    """What Redis refused, but for the client library's introduction (docs/redis-keys.md)."""
    log: Any = admin.acl_log(1000)
    return [entry for entry in log if b"setinfo" not in str(entry["object"]).lower().encode()]
