"""Which servers are refused before a night begins and by day, and that no password is shown."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from shared.config.kinds import place_of
from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, SettingsError
from shared.vectors.on_server import Served, write_served
from shared.vectors.redis.index import RedisBackend, RedisBuilder
from tests.support.machine import free_port
from tests.support.night.index_world import DIMENSIONS
from tests.support.night.indexes.on_redis import opened, sealed

REDIS = place_of("redis")


def released(folder: Path, settings: Settings) -> RedisBackend:
    """A release whose vectors are said to be on that server, opened."""
    (folder / "1").mkdir()
    write_served(folder / "1" / REDIS, Served("hmem-1-00000000", 3, DIMENSIONS))
    return opened(settings, sealed(folder / "1" / REDIS))


def test_a_redis_without_vector_sets_is_refused_by_night_and_by_day(redis_url: str, tmp_path: Path) -> None:
    with Redis.from_url(redis_url) as client:
        version = str(client.info("server")["redis_version"])
    if int(version.split(".")[0]) >= 8:
        pytest.skip("The Redis of this system has vector sets.")
    settings = load_settings(redis_vectors_url=redis_url)
    with pytest.raises(SettingsError, match=rf"is {version} and has no vector sets.*Run Redis 8\.0 or newer"):
        RedisBuilder(settings, 1).refuse_unless_usable()
    found = released(tmp_path, settings)
    assert "has no vector sets" in (found.why_not or "")
    found.close()


def test_a_policy_that_drops_vectors_is_refused(looking: Redis, settings: Settings) -> None:
    builder = RedisBuilder(settings, 1)
    builder.refuse_unless_usable()
    looking.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(SettingsError, match=r"allkeys-lru: when its memory is full, it silently deletes vectors"):
            builder.refuse_unless_usable()
    finally:
        looking.config_set("maxmemory-policy", "noeviction")


def test_a_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    settings = load_settings(redis_vectors_url=f"redis://somebody:open-sesame@127.0.0.1:{free_port()}/0")
    with pytest.raises(IndexServerUnavailable) as refused:
        RedisBuilder(settings, 1).refuse_unless_usable()
    assert "ConnectionError" in str(refused.value)
    found = released(tmp_path, settings)
    assert "the redis server is not available" in cast(str, found.why_not)
    assert "sesame" not in f"{refused.value}{found.why_not}"
    found.close()
