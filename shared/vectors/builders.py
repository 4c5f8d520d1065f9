"""Who builds which index. Libraries of a backend are imported when it is built, never because another one exists."""

from __future__ import annotations

from shared.config.settings import Settings
from shared.vectors.base import Builder, ServedBuilder

#: Indexes that are on a server.
SERVED = ("qdrant", "redis")


def builder_of(name: str, settings: Settings, run: int) -> Builder:
    """The builder of one of settings.INDEXES, for the release of this run."""
    if name in SERVED:
        return served_builder_of(name, settings, run)
    if name == "chroma":
        from shared.vectors.chroma import ChromaBuilder

        return ChromaBuilder()
    if name == "lancedb":
        from shared.vectors.lancedb.index import LanceBuilder

        return LanceBuilder()
    from shared.vectors.sqlite.index import SqliteBuilder

    return SqliteBuilder(run)


def served_builder_of(name: str, settings: Settings, run: int) -> ServedBuilder:
    """The same, of one of SERVED."""
    if name == "qdrant":
        from shared.vectors.qdrant.index import QdrantBuilder

        return QdrantBuilder(settings, run)
    from shared.vectors.redis.index import RedisBuilder

    return RedisBuilder(settings, run)
