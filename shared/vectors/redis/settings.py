"""The settings of this index."""

from __future__ import annotations

from pydantic import Field

from shared.config.feature_settings import FeatureSettings
from shared.config.values import RedisUrl


class RedisVectorSettings(FeatureSettings):
    redis_vectors_url: RedisUrl | None = Field(None, repr=False)
    """the Redis 8 or newer that stores vectors; unset: REDIS_URL"""
