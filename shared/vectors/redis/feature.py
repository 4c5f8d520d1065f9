"""The index `redis`: vector sets on a Redis 8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.config.kinds import IndexKind
from shared.hooks import hook

if TYPE_CHECKING:
    from shared.config.settings import Settings


@hook
def vector_index() -> IndexKind:
    return IndexKind("redis", "redis.json", server=_server)


def _server(settings: Settings) -> str | None:
    from shared.vectors.redis.settings import RedisVectorSettings  # pydantic, late: `hmem --help` asks features, too

    return settings.of(RedisVectorSettings).redis_vectors_url
