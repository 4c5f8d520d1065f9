"""The index `qdrant`: collections on a Qdrant server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shared.config.kinds import IndexKind
from shared.hooks import hook

if TYPE_CHECKING:
    from shared.config.settings import Settings


@hook
def vector_index() -> IndexKind:
    return IndexKind("qdrant", "qdrant.json", part="qdrant", server=_server)


def _server(settings: Settings) -> str | None:
    from shared.vectors.qdrant.settings import QdrantSettings  # pydantic, late: `hmem --help` asks features, too

    return settings.of(QdrantSettings).qdrant_url
