"""The index `redis`: vector sets on a Redis 8."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.kinds import IndexKind
from shared.config.values import RedisUrl
from shared.hooks import hook


class RedisVectorSettings(FeatureSettings):
    redis_vectors_url: RedisUrl | None = Field(
        None, description="the Redis 8 or newer that stores vectors; unset: REDIS_URL", repr=False
    )


@hook
def vector_index() -> IndexKind:
    return IndexKind("redis", "redis.json", server=lambda settings: settings.of(RedisVectorSettings).redis_vectors_url)
