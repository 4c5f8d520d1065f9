"""Who builds which index. Libraries of a backend are imported when it is built, never because another one exists."""

from __future__ import annotations

from shared.backends.base import Builder, ServedBuilder
from shared.settings import Settings

#: Indexes that are on a server.
SERVED = ("qdrant", "redis")


def builder_of(name: str, settings: Settings, run: int) -> Builder:
    """The builder of one of settings.INDEXES, for the release of this run."""
    if name in SERVED:
        return served_builder_of(name, settings, run)
    if name == "chroma":
        from shared.backends.chroma import ChromaBuilder

        return ChromaBuilder()
    if name == "lancedb":
        from shared.backends.lancedb import LanceBuilder

        return LanceBuilder()
    from shared.backends.sqlite import SqliteBuilder

    return SqliteBuilder(run)


def served_builder_of(name: str, settings: Settings, run: int) -> ServedBuilder:
    """The same, of one of SERVED."""
    if name == "qdrant":
        from shared.backends.qdrant import QdrantBuilder

        return QdrantBuilder(settings, run)
    from shared.backends.redis_search import RedisBuilder

    return RedisBuilder(settings, run)
