"""Installations as earlier versions of the program left them (tests/data/formats/, made by scripts/format_samples.py), set up in a world."""

from __future__ import annotations

import json
import tarfile
import time
from typing import Any

from redis import Redis

from tests.support.world import REPOSITORY, World

SAMPLES = REPOSITORY / "tests" / "data" / "formats"
#: The versions that there are samples of, oldest first.
VERSIONS = sorted((path.name for path in SAMPLES.iterdir()), key=lambda name: [int(part) for part in name.split(".")])


def set_up(world: World, version: str) -> None:
    """Its directories, and its keys in Redis."""
    with tarfile.open(SAMPLES / version / "installation.tar.gz") as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 of Debian 12 has none
        packed.extractall(world.root)
    for name in ("state", "memory", "night"):
        (world.root / name).chmod(0o700)
    for key, value in json.loads((SAMPLES / version / "redis.json").read_text(encoding="utf-8")).items():
        _put(world.redis, key, value)


def _put(client: Redis, key: str, value: Any) -> None:
    if key.startswith("hcli:mem:why:"):  # what is explained is shown for a day
        value = [json.dumps(json.loads(one) | {"at": time.time()}) for one in value]
    if isinstance(value, str):
        client.set(key, value)
    elif isinstance(value, list):
        client.rpush(key, *value)
    elif "set" in value:
        client.sadd(key, *value["set"])
    elif "zset" in value:
        client.zadd(key, dict(value["zset"]))
    else:
        client.hset(key, mapping=value)
