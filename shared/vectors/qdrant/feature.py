"""The index `qdrant`: collections on a Qdrant server."""

from __future__ import annotations

from shared.config.kinds import IndexKind
from shared.hooks import hook
from shared.vectors.qdrant.settings import QdrantSettings


@hook
def vector_index() -> IndexKind:
    return IndexKind(
        "qdrant", "qdrant.json", part="qdrant", server=lambda settings: settings.of(QdrantSettings).qdrant_url
    )
