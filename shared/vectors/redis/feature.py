"""The index `redis`: vector sets on a Redis 8."""

from __future__ import annotations

from shared.config.kinds import IndexKind
from shared.hooks import hook
from shared.vectors.redis.settings import RedisVectorSettings


@hook
def vector_index() -> IndexKind:
    return IndexKind("redis", "redis.json", server=lambda settings: settings.of(RedisVectorSettings).redis_vectors_url)
