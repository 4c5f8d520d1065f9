"""The index `chroma`: Chroma, in files of the release."""

from __future__ import annotations

from shared.config.kinds import IndexKind
from shared.hooks import hook


@hook
def vector_index() -> IndexKind:
    files = r"chroma\.sqlite3|[0-9a-f-]{36}/[a-z0-9_]{1,40}\.(?:bin|pickle)"
    return IndexKind("chroma", "chroma", files, part="chroma")
