"""Which index is built and which is searched. Each is a folder beside this module, which is imported when it is used, and nowhere else by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from shared.config.kinds import indexes
from shared.config.settings import Settings
from shared.release.manifest import Manifest
from shared.vectors.base import Builder, MemoryBackend, NullBackend, VectorIndex


def builder_of(name: str, settings: Settings, run: int) -> Builder:
    """The builder of one of the indexes, for the release of this run."""
    return _index(name).builder(settings, run)


def backend_of(settings: Settings, path: Path, manifest: Manifest) -> MemoryBackend:
    """The backend for a release, not opened yet: the one that MEMORY_BACKEND names, for `auto` the first that is there."""
    if settings.without_vectors:
        return NullBackend(settings.without_vectors)
    if why := misfit(settings, manifest):
        return NullBackend(why)
    if not manifest.indexes:
        return NullBackend(f"release {manifest.run} was built without a vector index")
    wanted = [*indexes()] if settings.memory_backend == "auto" else [settings.memory_backend]
    chosen = next(name for name in wanted if name in manifest.indexes)
    return _index(chosen).backend(settings, path, manifest.embedding)


def misfit(settings: Settings, manifest: Manifest) -> str | None:
    """Why the index that MEMORY_BACKEND names is not in the release that NIGHT_INDEXES has made, or None."""
    named = settings.memory_backend
    if settings.without_vectors or named in manifest.indexes:
        return None
    if named == "auto" and (not manifest.indexes or not indexes().keys().isdisjoint(manifest.indexes)):
        return None
    there = (
        f"has its vectors in {', '.join(manifest.indexes)}" if manifest.indexes else "was built without a vector index"
    )
    return (
        f"release {manifest.run} {there}, but MEMORY_BACKEND={named} requires another index; change NIGHT_INDEXES on the night host "
        "or MEMORY_BACKEND here"
    )


def _index(name: str) -> VectorIndex:
    found: VectorIndex = import_module(f"shared.vectors.{name}.index").INDEX
    return found
