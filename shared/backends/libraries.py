"""The libraries that indexes need, each in an extra of its own. Nothing is imported to find out whether one is there."""

from __future__ import annotations

import importlib.util

from shared.errors import SettingsError

#: Index -> (package that is imported, extra that installs it).
LIBRARIES = {
    "chroma": ("chromadb", "chroma"),
    "lancedb": ("lancedb", "lancedb"),
    "qdrant": ("qdrant_client", "qdrant"),
    "redis": ("redisvl", "redis-search"),
}


def how_to_install(index: str) -> str | None:
    """What to do where the library of this index is missing; None where it is there, or none is needed."""
    package, extra = LIBRARIES.get(index, (None, None))
    if package is None or importlib.util.find_spec(package):
        return None
    return f"install the extra, in the checkout: scripts/setup --with {extra}"


def refuse_without_library(index: str) -> None:
    """SettingsError unless it is there."""
    if how := how_to_install(index):
        raise SettingsError(f"NIGHT_INDEXES names {index}, which is not installed. Change it, or {how}.")
