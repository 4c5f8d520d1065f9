"""A host with a backup of it, and an empty one to which it is brought back: each with a Redis of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.day.health import redis_server, url_of
from tests.support.world import World

#: Said on each of two days; the first ones are archived, the others wait in Redis.
ARCHIVED, WAITING = "the boiler was repaired by Marchetti", "the spare key is under the blue pot"


@dataclass
class BackedUp:
    """`to`: the repository; `password`: the file with its password."""

    world: World
    to: Path
    password: Path

    def variables(self) -> dict[str, str]:
        return {"BACKUP_PASSWORD_FILE": str(self.password)}

    def backup(self, *options: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return self.world.command("hmem", "backup", str(self.to), *options, check=check, **{**self.variables(), **more})

    def made(self, *options: str, **more: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.backup("--json", *options, check=True, **more).stdout)
        return found

    def restore(self, onto: World, *options: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return onto.command("hmem", "restore", str(self.to), *options, check=check, **{**self.variables(), **more})

    def restic(self, *words: str) -> str:
        """restic itself, as a person runs it."""
        environment = self.world.variables() | {
            "RESTIC_REPOSITORY": str(self.to), "RESTIC_PASSWORD_FILE": str(self.password),
        }  # fmt: skip
        done = subprocess.run(["restic", *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fetched(self, into: Path) -> Path:
        """The newest snapshot as restic brings it back."""
        self.restic("restore", "latest", "--target", str(into))
        return into


def backed_up(world: World, folder: Path) -> BackedUp:
    password = folder / "backup-password"
    world.command("hmem", "backup", "--new-password", str(password))
    return BackedUp(world, folder / "repository", password)


def lived_in(world: World) -> None:
    """Two nights, a typed memory, a turn and a message that wait."""
    for day in (1, 2):
        world.say(f"t{day}", f"on day {day} {ARCHIVED}", timestamp=1_707_500_000.0 + 86_400 * day)
        world.night()
    remember(world, "the cat is called Pushok")
    world.say("t3", WAITING, timestamp=1_707_800_000.0)
    world.enqueue("q1", "when is the concert?")
    world.redis.set("hcli:session:9912", "a-session", ex=3600)


def remember(world: World, text: str) -> None:
    world.command("hmem", "memory", "add", "9912", text)


@contextmanager
def empty_host(like: World, folder: Path) -> Iterator[World]:
    """Another host with an empty Redis, and the same settings but for its places."""
    folder.mkdir()
    with redis_server(folder / "redis", "--save", "") as client:
        yield World(folder, client, url_of(client), dict(like.environment))
