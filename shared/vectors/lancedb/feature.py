"""The index `lancedb`: LanceDB, in files of the release."""

from __future__ import annotations

from shared.config.kinds import IndexKind
from shared.hooks import hook


@hook
def vector_index() -> IndexKind:
    return IndexKind("lancedb", "lancedb", part="lancedb")
