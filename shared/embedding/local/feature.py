"""The embedder `local`: models whose files come with the program, or are made at set-up."""

from __future__ import annotations

from shared.config.kinds import EmbedderKind
from shared.hooks import hook


@hook
def embedder() -> EmbedderKind:
    return EmbedderKind("local", "local", "make or restore it again (docs/models.md)", model="multilingual-e5-small")
