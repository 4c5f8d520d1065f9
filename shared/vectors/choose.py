"""Which index of a release is searched. Libraries of a backend are imported when it is opened, never because another one exists."""

from __future__ import annotations

from pathlib import Path

from shared.config.settings import INDEXES, Settings
from shared.release.manifest import Manifest
from shared.vectors.base import MemoryBackend
from shared.vectors.null import NullBackend
from shared.vectors.searching import AskingBackend


def backend_of(settings: Settings, path: Path, manifest: Manifest) -> MemoryBackend:
    """The backend for a release, not opened yet: the one that MEMORY_BACKEND names, for `auto` the first of INDEXES that is there."""
    if settings.without_vectors:
        return NullBackend(settings.without_vectors)
    if not manifest.indexes:
        return NullBackend(f"release {manifest.run} was built without a vector index")
    wanted = INDEXES if settings.memory_backend == "auto" else (settings.memory_backend,)
    chosen = next((name for name in wanted if name in manifest.indexes), None)
    if chosen is None:
        return NullBackend(
            f"release {manifest.run} has its vectors in {', '.join(manifest.indexes)}, MEMORY_BACKEND={settings.memory_backend} asks for "
            "others; set NIGHT_INDEXES on the night host or MEMORY_BACKEND here"
        )
    return _backend(chosen)(settings, path, manifest.embedding)


def _backend(name: str) -> type[AskingBackend]:
    if name == "chroma":
        from shared.vectors.chroma import ChromaBackend

        return ChromaBackend
    if name == "lancedb":
        from shared.vectors.lancedb.index import LanceBackend

        return LanceBackend
    if name == "qdrant":
        from shared.vectors.qdrant.index import QdrantBackend

        return QdrantBackend
    if name == "redis":
        from shared.vectors.redis.index import RedisBackend

        return RedisBackend
    from shared.vectors.sqlite.index import SqliteBackend

    return SqliteBackend
