"""The files of messages: by hash, for a day, within a limit; what is not what its hash says is not there."""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from redis import Redis

from shared.wire import keys
from shared.wire.client import BOT, open_async_redis
from shared.wire.media.in_files import MediaFolder
from shared.wire.media.open import FULL, MediaInRedis
from shared.wire.media.store import MediaRefused, sha256_of

Value = TypeVar("Value")


def in_redis(url: str, work: Callable[[MediaInRedis], Awaitable[Value]], most: int = 1_000) -> Value:
    async def run() -> Value:
        client = open_async_redis(url, BOT)
        try:
            return await work(MediaInRedis(client, most))
        finally:
            await client.aclose()

    return asyncio.run(run())


@pytest.fixture
def redis(redis_url: str) -> Redis:
    client: Redis = Redis.from_url(redis_url)
    client.flushall()
    return client


def test_a_value_is_found_by_its_hash_for_a_day(redis: Redis, redis_url: str) -> None:
    name = in_redis(redis_url, lambda store: store.put(b"a picture"))
    assert name == sha256_of(b"a picture")
    assert in_redis(redis_url, lambda store: store.get(name)) == b"a picture"
    assert 86_300 < int(redis.ttl(keys.media(name))) <= 86_400
    redis.set(keys.media(name), b"something else")
    assert in_redis(redis_url, lambda store: store.get(name)) is None
    assert in_redis(redis_url, lambda store: store.get("0" * 64)) is None
    assert in_redis(redis_url, lambda store: store.get("../x")) is None


def test_all_values_together_have_a_limit(redis: Redis, redis_url: str) -> None:
    for _ in range(3):  # the same counts once
        in_redis(redis_url, lambda store: store.put(b"x" * 600))
    with pytest.raises(MediaRefused, match=r"tomorrow"):
        in_redis(redis_url, lambda store: store.put(b"y" * 401))
    in_redis(redis_url, lambda store: store.put(b"y" * 400))
    assert len(redis.keys(keys.media("*"))) == 2
    assert FULL.endswith(".")
    redis.zadd(keys.MEDIA, {f"600:{sha256_of(b'x' * 600)}": time.time() - 1})  # a day later
    in_redis(redis_url, lambda store: store.put(b"z" * 600))


def test_a_file_is_readable_by_the_group_and_found_by_its_hash(tmp_path: Path) -> None:
    store = MediaFolder(tmp_path / "media")
    before = os.umask(0o077)
    try:
        name = asyncio.run(store.put(b"a picture"))
    finally:
        os.umask(before)
    path = tmp_path / "media" / name
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o2770
    assert asyncio.run(store.get(name)) == b"a picture"
    assert [one.name for one in path.parent.iterdir()] == [name], "and nothing that is half written"


@pytest.mark.parametrize("name", ["../secret", "", "0" * 63, "A" * 64, "/etc/hostname"])
def test_no_other_file_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    assert asyncio.run(MediaFolder(tmp_path / "media").get(name)) is None


def test_what_another_user_put_there_is_not_believed(tmp_path: Path) -> None:
    store = MediaFolder(tmp_path)
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    name = sha256_of(b"secret")
    (tmp_path / name).symlink_to(secret)
    assert asyncio.run(store.get(name)) is None, "a link"
    pipe = sha256_of(b"pipe")
    os.mkfifo(tmp_path / pipe)
    assert asyncio.run(store.get(pipe)) is None, "a pipe, and nobody waits for it"
    other = sha256_of(b"other")
    (tmp_path / other).write_bytes(b"not that")
    assert asyncio.run(store.get(other)) is None, "other bytes"


def test_old_files_go_and_foreign_ones_stay(tmp_path: Path) -> None:
    store = MediaFolder(tmp_path)
    old, new = (asyncio.run(store.put(one)) for one in (b"old", b"new"))
    (tmp_path / "notes.txt").write_text("mine")
    for name in (old, "notes.txt"):
        os.utime(tmp_path / name, (time.time() - 90_000,) * 2)
    asyncio.run(store.remove_old())
    assert {one.name for one in tmp_path.iterdir()} == {new, "notes.txt"}
    asyncio.run(store.put(b"new"))
    assert store.remove_except([]) == 1
    assert {one.name for one in tmp_path.iterdir()} == {"notes.txt"}


def test_a_full_disk_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "media").write_text("not a folder")
    with pytest.raises(MediaRefused, match=r"MEDIA_DIR"):
        asyncio.run(MediaFolder(tmp_path / "media").put(b"x"))
