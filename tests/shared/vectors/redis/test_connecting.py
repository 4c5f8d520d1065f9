"""Which servers are refused before a night begins, and that no password is shown."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from shared.config.settings import Settings, load_settings
from shared.errors import IndexServerUnavailable, SettingsError
from shared.release.manifest import REDIS, Manifest, seal
from shared.vectors.on_server import Served, write_served
from shared.vectors.redis.index import RedisBuilder
from tests.servers.redisearch import RediSearch
from tests.support.machine import free_port
from tests.support.night.indexes.on_redis import DIMENSIONS, IDENTITY, opened


def test_a_server_without_the_module_is_refused(stand_in: RediSearch) -> None:
    with pytest.raises(SettingsError, match=r"no search module.*Run Redis 8 or Redis Stack"):
        RedisBuilder(load_settings(redis_stack_url=stand_in.plain_url), 1).refuse_unless_usable()


def test_another_database_and_a_policy_that_drops_vectors_are_refused(stand_in: RediSearch, settings: Settings) -> None:
    builder = RedisBuilder(settings, 1)
    builder.refuse_unless_usable()
    with pytest.raises(SettingsError, match="another database than 0"):
        RedisBuilder(load_settings(redis_stack_url=stand_in.url[:-1] + "3"), 1).refuse_unless_usable()
    stand_in.redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(SettingsError, match=r"allkeys-lru: when its memory is full, it silently deletes vectors"):
            builder.refuse_unless_usable()
    finally:
        stand_in.redis.config_set("maxmemory-policy", "noeviction")


def test_a_server_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    settings = load_settings(redis_stack_url=f"redis://somebody:open-sesame@127.0.0.1:{free_port()}/0")
    with pytest.raises(IndexServerUnavailable) as refused:
        RedisBuilder(settings, 1).refuse_unless_usable()
    assert "ConnectionError" in str(refused.value)
    (tmp_path / "1").mkdir()
    write_served(tmp_path / "1" / REDIS, Served("hmem-1-00000000", 3, DIMENSIONS))
    seal(tmp_path / "1", Manifest(1, None, {}, 1, 1, "UTC", ["redis"], IDENTITY, 0, 0, 0, 0, {}))
    found = opened(settings, tmp_path / "1" / REDIS)
    assert "the redis server is not available" in cast(str, found.why_not)
    assert "sesame" not in f"{refused.value}{found.why_not}"
    found.close()
