"""The index `lancedb`: LanceDB, in files of the release."""

from __future__ import annotations

from shared.config.kinds import IndexKind
from shared.hooks import hook


@hook
def vector_index() -> IndexKind:
    files = r"[a-z]{1,20}\.lance/(?:data|_[a-z]{1,20})(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}){1,3}"
    return IndexKind("lancedb", "lancedb", files, part="lancedb")
