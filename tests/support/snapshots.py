"""An installation as it lies on the disk and in Redis: made once, and where many tests begin."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from redis import Redis

from tests.support.world import World


@dataclass(frozen=True)
class Snapshot:
    """A world's directory, what Redis held (DUMP by key), and the environment of its commands."""

    root: Path
    redis: dict[bytes, bytes]
    environment: dict[str, str]

    @classmethod
    def made(cls, root: Path, redis_url: str, live: Callable[[World], object]) -> Snapshot:
        """Let a world live in an empty directory; whatever Redis holds now is lost."""
        with closing(Redis.from_url(redis_url)) as client:
            client.flushall()
            world = World(root, client, redis_url, {"EMBEDDER": "none", "NIGHT_INDEXES": "none"})
            live(world)
            held = {key: client.dump(key) or b"" for key in client.scan_iter()}
        return cls(root, held, world.environment)

    def lay_out(self, world: World) -> World:
        """The same in a world that has not begun."""
        shutil.copytree(self.root, world.root, symlinks=True, dirs_exist_ok=True)
        world.redis.flushall()  # the first test of all makes the snapshot after its own Redis was emptied
        for key, content in self.redis.items():
            world.redis.restore(key, 0, content)
        world.environment = dict(self.environment)
        return world
